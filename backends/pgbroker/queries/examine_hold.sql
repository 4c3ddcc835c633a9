-- examine_hold.sql: let a job hold its unique key again, if no job does.
-- Params: @key, @queue number of its queue, @id of the job, locked, @mode, @until end of the hold µs|null
-- Returns: nothing
-- Called by: (*Broker).Examine, in one transaction after examine_lock.sql
insert into jobs.unique_key (queue, key, job, mode, token, until) values (@queue, @key, @id, @mode, 0, @until) on conflict (key,
  queue) do nothing
