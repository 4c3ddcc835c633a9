-- operate_look_dead.sql: look at dead jobs, and lock them.
-- Params: @queue, @ids
-- Returns: one row per job: the columns of jobRow
-- Called by: (*Broker).Operate
select id, created_at, epoch, deliveries, failures, crashes, snoozes, tail, body from jobs.dead
where queue = (select id from jobs.queue where name = @queue) and id = any (@ids::text[]) order by id for update
