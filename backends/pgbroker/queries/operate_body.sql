-- operate_body.sql: read the stored body of a job that is not finished.
-- Params: $1 queue, $2 ID of a job that is locked
-- Returns: one row: the body
-- Called by: (*Broker).Operate
select body from jobs.job where queue = (select id from jobs.queue where name = $1) and id = $2::text
union all
select body from jobs.dead where queue = (select id from jobs.queue where name = $1) and id = $2::text
