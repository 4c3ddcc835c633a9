-- operate_ask.sql: ask the holders of active jobs to cancel them.
-- Params: $1 queue, $2 IDs, all of them locked
-- Returns: nothing
-- Called by: (*Broker).Operate
update jobs.job set cancel = true
where queue = (select id from jobs.queue where name = $1) and id = any ($2::text[]) and cancel is not true
