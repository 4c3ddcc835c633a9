-- reclaim_end.sql: end the workers of queues whose leases ran out, for a worker that is alive and whose own have not.
-- A worker with a claim under way is left to the next call.
-- Params: @now µs|null, @worker calling worker, @queues
-- Returns: one row per queue where the caller may reclaim: queue
-- Called by: (*Broker).Reclaim, in one transaction before reclaim.sql
with clock as materialized (
  select coalesce(@now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
), caller as materialized (
  select q.id as queue, q.name
  from clock cross join (select id, name from jobs.queue where name = any (@queues::text[]) and layout <= 1 order by id) q
  cross join lateral (
    select num from jobs.worker where queue = q.id and id = @worker and ended_at is null and until > clock.now limit 1 for key share) w
), silent as materialized (
  select w.num from clock cross join unnest(array(select queue from caller)) as c(queue) cross join lateral (
    select num from jobs.worker where queue = c.queue and not drained and ended_at is null and until <= clock.now
    for update skip locked) w
), ended as (
  update jobs.worker set ended_at = (select now from clock) where num = any (array(select num from silent))
)
select name from caller
