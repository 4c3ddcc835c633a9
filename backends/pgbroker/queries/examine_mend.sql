-- examine_mend.sql: repair rows of jobs: their state and the columns that depend on it. The jobs go to the end of their lane.
-- Params: @ids and @queues numbers of queues, all of them locked, @states, @lanes, @keep_due whether they keep their due time,
--   @keep_worker whether they keep their worker, @epochs by how much their epoch rises, @leases that ended
-- Returns: nothing
-- Called by: (*Broker).Examine, in one transaction after examine_lock.sql
with called as (
  -- Claims then look at the keys of all jobs that may be pending now.
  insert into jobs.call (queue, key)
  select distinct j.queue, j.key
  from jobs.job j join unnest(@ids::text[], @queues::int[]) as n(id, queue) on n.id = j.id and n.queue = j.queue
  where j.id = any (@ids) and j.key is not null
)
update jobs.job j set state = n.state, lane = n.lane, run_at = case when n.timed then j.run_at end,
  worker = case when n.held then j.worker end,
  held = case when n.state = 8 then j.held end,
  seq = case when n.lane % 2 = 0 then -nextval('jobs.job_seq') else nextval('jobs.job_seq') end,
  epoch = coalesce(j.epoch, 0) + n.rise, deliveries = coalesce(j.deliveries, 0) + n.ended
from unnest(@ids::text[], @queues::int[], @states::smallint[], @lanes::smallint[], @keep_due::boolean[], @keep_worker::boolean[],
  @epochs::int[], @leases::int[])
  as n(id, queue, state, lane, timed, held, rise, ended)
where j.id = any (@ids) and j.id = n.id and j.queue = n.queue
