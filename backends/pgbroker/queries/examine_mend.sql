-- examine_mend.sql: repair the row of a job: its state and the columns that depend on it. The job goes to the end of its lane.
-- Params: @id and @queue number of its queue, locked, @state, @lane, @keep_due whether it keeps its due time, @keep_worker whether it
--   keeps its worker, @rise by how much its epoch rises, @ended leases that ended
-- Returns: nothing
-- Called by: (*Broker).Examine, in one transaction after examine_lock.sql
with called as (
  -- Claims then look at its key, since the job may be pending now.
  insert into jobs.call (queue, key) select queue, key from jobs.job where id = @id and queue = @queue and key is not null
)
update jobs.job set state = @state::smallint, lane = @lane::smallint, run_at = case when @keep_due::boolean then run_at end,
  worker = case when @keep_worker::boolean then worker end, held = case when @state = 8 then held end,
  seq = case when @lane % 2 = 0 then -nextval('jobs.job_seq') else nextval('jobs.job_seq') end,
  epoch = coalesce(epoch, 0) + @rise, deliveries = coalesce(deliveries, 0) + @ended
where id = @id and queue = @queue
