-- meet_postpone.sql: set the due time of a job that waits behind another one.
-- Params: @queue, @id of the job, locked, @holder what it records of the other one, @run_at µs, 0 for none
-- Returns: nothing
-- Called by: (*Broker).Enqueue, in one transaction after meet_look.sql
update jobs.job set run_at = @run_at::bigint, held = case when @run_at > 0 then '2:' else '1:' end || @holder::text
where queue = (select id from jobs.queue where name = @queue) and id = @id::text
