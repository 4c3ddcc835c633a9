-- operate_body.sql: read the stored body of a job that is not final, or is dead.
-- Params: @queue, @id of a job that is locked
-- Returns: one row: the body
-- Called by: (*Broker).Operate
select body from jobs.job where queue = (select id from jobs.queue where name = @queue) and id = @id::text
union all
select body from jobs.dead where queue = (select id from jobs.queue where name = @queue) and id = @id::text
