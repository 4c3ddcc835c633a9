-- reclaim_end.sql: end the workers in queues whose leases ran out. The calling worker must be alive there, with leases that have
-- not run out. A worker with a claim under way is left to the next call.
-- Params: @now µs|null, @worker calling worker, @queues
-- Returns: one row per queue where the caller may reclaim: queue, now, whether a worker was left there
-- Called by: (*Broker).Reclaim, in one transaction before reclaim.sql
with {{clock}}, caller as materialized (
  select q.id as queue, q.name
  from clock cross join (select id, name from jobs.queue where name = any (@queues::text[]) and layout <= 1 order by id) q
  cross join lateral (
    select num from jobs.worker where queue = q.id and id = @worker and ended_at is null
      and (select until from jobs.pulse p where p.num = pulse) > clock.now limit 1 for key share) w
), lapsed as materialized (
  -- The lock makes a concurrent renewal wait. If this call ends the worker, the renewal then finds that the pulse is not intact.
  select p.num from jobs.pulse p
  cross join lateral (select from jobs.worker w
    where w.pulse = p.num and w.ended_at is null and w.queue = any (array(select queue from caller)) limit 1) followed
  where p.until <= (select now from clock) order by p.num for no key update of p
), silent as materialized (
  select w.num, w.queue, w.pulse from lapsed cross join lateral (
    select num, queue, pulse from jobs.worker
    where pulse = lapsed.num and ended_at is null and queue = any (array(select queue from caller))) w
), taken as materialized (
  -- A renewal that this call waited for may have given the worker another pulse.
  select num, pulse from jobs.worker
  where num = any (array(select num from silent)) and pulse = any (array(select pulse from silent)) and ended_at is null
  for update skip locked
), ended as (
  update jobs.worker set ended_at = (select now from clock) where num = any (array(select num from taken))
), apart as (
  update jobs.pulse set intact = false where num = any (array(select pulse from taken)) and intact
)
select name, (select now from clock),
  exists (select from silent s where s.queue = c.queue and s.num <> all (array(select num from taken))) from caller c
