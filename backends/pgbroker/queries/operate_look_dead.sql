-- operate_look_dead.sql: look at dead jobs, and lock them.
-- Params: $1 queue, $2 IDs
-- Returns: one row per job: the columns of jobRow
-- Called by: (*Broker).Operate
select id, created_at, epoch, deliveries, failures, crashes, snoozes, tail, body from jobs.dead
where queue = (select id from jobs.queue where name = $1) and id = any ($2::text[]) order by id for update
