-- examine_mend.sql: repair the row of a job: its state and the columns that depend on it. The job goes to the end of its lane.
-- Params: @id and @queue number of its queue, locked, @state, @lane, @rise by how much its epoch rises, @ended leases that ended
-- Returns: nothing
-- Called by: (*Broker).Examine, in one transaction after examine_lock.sql
with was as materialized (
  select state, octet_length(body) as size from jobs.job where id = @id and queue = @queue
), counted as (
  -- If no version wrote the state, the job is still counted in the one before, which is not known: examine_recount.sql corrects that.
  insert into jobs.count_delta (queue, pending, scheduled, active, retry, waiting, bytes)
  select @queue, (@state::smallint = 1)::int - (state = 1)::int, (@state = 2)::int - (state = 2)::int,
         (@state = 3)::int - (state = 3)::int, (@state = 4)::int - (state = 4)::int, (@state = 8)::int - (state = 8)::int,
         size * ((@state <> 3)::int - (state <> 3)::int)
  from was where state in (1, 2, 3, 4, 8) and state <> @state
), called as (
  -- Claims then look at its key, since the job may be pending now.
  insert into jobs.call (queue, key) select queue, key from jobs.job where id = @id and queue = @queue and key is not null
)
update jobs.job set state = @state, lane = @lane::smallint, run_at = case when @state in (2, 4, 8) then run_at end,
  worker = case when @state = 3 then worker end, held = case when @state = 8 then held end,
  seq = case when @lane % 2 = 0 then -nextval('jobs.job_seq') else nextval('jobs.job_seq') end,
  epoch = coalesce(epoch, 0) + @rise, deliveries = coalesce(deliveries, 0) + @ended
where id = @id and queue = @queue
