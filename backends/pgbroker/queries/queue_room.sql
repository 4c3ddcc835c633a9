-- queue_room.sql: say why a queue is not served, or how many jobs it has room for, and what the floor of the deltas of counts is
-- computed from, all by one snapshot.
-- Params: $1 queue, $2 how many are many, $3 floor
-- Returns: at most one row: number, layout, 0 when it is being removed, depth limit, pending, scheduled and waiting jobs,
--   whether many deltas of counts wait to be folded, oldest transaction that runs, the first not begun, last number of a delta,
--   the first delta over the floor|null
-- Called by: (*Broker).Enqueue; every method that found a queue unserved
select q.id, case when q.leaving then 0 else q.layout end, q.max_depth,
       coalesce((select t.pending + t.scheduled + t.waiting from jobs.count_total t where t.queue = q.id), 0)
         + coalesce((select sum(d.pending + d.scheduled) from jobs.count_delta d where d.n > $3 and d.queue = q.id), 0)::bigint,
       (select count(*) from (select from jobs.count_delta where n > $3 limit $2) d) >= $2,
       pg_snapshot_xmin(s.snapshot)::text::bigint, pg_snapshot_xmax(s.snapshot)::text::bigint, (select last_value from jobs.count_delta_n_seq),
       (select n from jobs.count_delta where n > $3 order by n limit 1)
from (select pg_current_snapshot() as snapshot offset 0) s cross join jobs.queue q where q.name = $1
