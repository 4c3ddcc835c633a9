-- operate_look_job.sql: look at jobs that are not final, and lock them. Those that wait behind others come last, in the order of their
-- unique keys, as the ends of these others lock them.
-- Params: @queue, @ids
-- Returns: one row per job: ID, state, epoch, column held|null
-- Called by: (*Broker).Operate
select id, state, coalesce(epoch, 0), held from jobs.job
where queue = (select id from jobs.queue where name = @queue) and id = any (@ids::text[])
order by state = 8, case when state = 8 then unique_key end, id for update
