-- floor.sql: what the scan floor is computed from, all by one snapshot.
-- Params: $1 queues, $2 their present floors: for each queue those of the lanes 2 to 9
-- Returns: one row: oldest transaction that runs, this transaction, last seq handed out,
--   and for each queue and lane the first pending seq over the floor|null
-- Called by: (*Broker).Claim
select pg_snapshot_xmin(s.snapshot)::text::bigint, pg_current_xact_id()::text::bigint, (select last_value from jobs.job_seq),
  array(
    select (select j.seq from jobs.job j
            where j.state = 1 and j.queue = q.id and j.lane = l.lane::smallint and j.seq > ($2::bigint[])[(n.ord::int - 1) * 8 + l.lane - 1]
            order by j.seq limit 1)
    from unnest($1::text[]) with ordinality as n(name, ord) left join lateral (select id from jobs.queue where name = n.name limit 1) q on true
    cross join generate_series(2, 9) as l(lane)
    order by n.ord, l.lane)
from (select pg_current_snapshot() as snapshot offset 0) s
