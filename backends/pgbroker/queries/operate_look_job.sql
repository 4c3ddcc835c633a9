-- operate_look_job.sql: look at jobs that are not final, and lock them.
-- Params: $1 queue, $2 IDs
-- Returns: one row per job: ID, state, epoch, what held says|null
-- Called by: (*Broker).Operate
select id, state, coalesce(epoch, 0), held from jobs.job
where queue = (select id from jobs.queue where name = $1) and id = any ($2::text[]) order by id for update
