-- floor.sql: read the values from which the scan floors are computed, in one snapshot.
-- Params: @queues, @floors their present floors: for each queue those of the lanes 2 to 9, @old transaction, @due_at due times and
--   @due_turns seqs of their floors of due jobs
-- Returns: one row: oldest running transaction, oldest running one that is newer than @old, this transaction, last seq,
--   for each queue and lane the first pending seq over the floor|null, now,
--   for each queue the due time of the first job over the floor|null, for each queue its seq|null
-- Called by: (*Broker).Claim
with place as materialized (
  select n.ord, q.id
  from unnest(@queues::text[]) with ordinality as n(name, ord) left join lateral (select id from jobs.queue
    where name = n.name limit 1) q on true
), due as materialized (
  select p.ord, d.run_at, d.seq
  from place p left join lateral (
    select j.run_at, j.seq from (values (2::smallint), (4::smallint)) as s(state) cross join lateral (
      select run_at, seq from jobs.job
      where queue = p.id and state = s.state and run_at is not null and (run_at, seq) > ((@due_at::bigint[])[p.ord::int],
        (@due_turns::bigint[])[p.ord::int])
      order by run_at, seq limit 1) j
    order by j.run_at, j.seq limit 1) d on true
)
select pg_snapshot_xmin(s.snapshot)::text::bigint,
  coalesce((select min(x::text::bigint) from pg_snapshot_xip(s.snapshot) x where x::text::bigint > @old),
    pg_snapshot_xmax(s.snapshot)::text::bigint),
  pg_current_xact_id()::text::bigint, (select last_value from jobs.job_seq),
  array(
    select (select j.seq from jobs.job j
            where j.state = 1 and j.key is null and j.queue = p.id and j.lane = l.lane::smallint
              and j.seq > (@floors::bigint[])[(p.ord::int - 1) * 8 + l.lane - 1]
            order by j.seq limit 1)
    from place p cross join generate_series(2, 9) as l(lane)
    order by p.ord, l.lane),
  {{store_time}},
  array(select run_at from due order by ord), array(select seq from due order by ord)
from (select pg_current_snapshot() as snapshot offset 0) s
