-- queue_room.sql: say why a queue is not served, or how many jobs it has room for.
-- Params: $1 queue, $2 how many are many
-- Returns: at most one row: number, layout, 0 when it is being removed, depth limit, pending, scheduled and waiting jobs,
--   whether many deltas of counts wait to be folded
-- Called by: (*Broker).Enqueue; every method that found a queue unserved
select q.id, case when q.leaving then 0 else q.layout end, q.max_depth,
       coalesce((select t.pending + t.scheduled + t.waiting from jobs.count_total t where t.queue = q.id), 0)
         + coalesce((select sum(d.pending + d.scheduled) from jobs.count_delta d where d.queue = q.id), 0)::bigint,
       (select count(*) from (select from jobs.count_delta limit $2) d) >= $2
from jobs.queue q where q.name = $1
