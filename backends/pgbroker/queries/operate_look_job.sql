-- operate_look_job.sql: look at jobs that are not final, and lock them.
-- Params: @queue, @ids
-- Returns: one row per job: ID, state, epoch, column held|null
-- Called by: (*Broker).Operate
select id, state, coalesce(epoch, 0), held from jobs.job
where queue = (select id from jobs.queue where name = @queue) and id = any (@ids::text[]) order by id for update
