-- operate_ask.sql: ask the workers of active jobs to cancel them.
-- Params: @queue, @ids, all of them locked
-- Returns: nothing
-- Called by: (*Broker).Operate
update jobs.job set cancel = true
where queue = (select id from jobs.queue where name = @queue) and id = any (@ids::text[]) and cancel is not true
