-- examine_mend.sql: put rows of jobs right: their state, and what goes with it. They get the last turn of their line.
-- Params: $1 IDs and $2 numbers of queues, all of them locked, $3 states, $4 lanes, $5 whether they keep their due time,
--   $6 whether they keep their worker, $7 by how much their epoch rises, $8 leases that ended
-- Returns: nothing
-- Called by: (*Broker).Examine, in one transaction after examine_lock.sql
update jobs.job j set state = n.state, lane = n.lane, run_at = case when n.timed then j.run_at end, worker = case when n.held then j.worker end,
  held = case when n.state = 8 then j.held end,
  seq = case when n.lane % 2 = 0 then -nextval('jobs.job_seq') else nextval('jobs.job_seq') end,
  epoch = coalesce(j.epoch, 0) + n.rise, deliveries = coalesce(j.deliveries, 0) + n.ended
from unnest($1::text[], $2::int[], $3::smallint[], $4::smallint[], $5::boolean[], $6::boolean[], $7::int[], $8::int[])
  as n(id, queue, state, lane, timed, held, rise, ended)
where j.id = any ($1) and j.id = n.id and j.queue = n.queue
