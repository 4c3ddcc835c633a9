-- examine_hold.sql: let a job hold its unique key again, if nobody does.
-- Params: $1 key, $2 number of its queue, $3 ID of the job, locked, $4 mode, $5 end of the hold µs|null
-- Returns: nothing
-- Called by: (*Broker).Examine, in one transaction after examine_lock.sql
insert into jobs.unique_key (queue, key, job, mode, token, until) values ($2, $1, $3, $4, 0, $5) on conflict (key, queue) do nothing
