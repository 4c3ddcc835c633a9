-- reclaim_end.sql: end the workers of queues that ran out, for a worker that is alive and has not run out itself.
-- A worker with a claim under way is left for the next time.
-- Params: $1 now µs|null, $2 calling worker, $3 queues
-- Returns: one row per queue where the caller may reclaim: queue
-- Called by: (*Broker).Reclaim, in one transaction before reclaim.sql
with clock as materialized (
  select coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
), caller as materialized (
  select q.id as queue, q.name
  from clock cross join jobs.queue q
  join jobs.worker w on w.queue = q.id and w.id = $2 and w.ended_at is null and w.until > clock.now
  where q.name = any ($3::text[]) and q.layout <= 1
  order by q.id
  for key share of w
), silent as materialized (
  select w.queue, w.id from clock, caller c join jobs.worker w on w.queue = c.queue
  where not w.drained and w.ended_at is null and w.until <= clock.now
  for update of w skip locked
), ended as (
  update jobs.worker w set ended_at = clock.now from clock, silent s where w.queue = s.queue and w.id = s.id
)
select name from caller
