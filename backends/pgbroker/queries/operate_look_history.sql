-- operate_look_history.sql: look at completed and cancelled records, and lock them.
-- Params: $1 queue, $2 IDs
-- Returns: one row per record: ID, state, epoch, nothing
-- Called by: (*Broker).Operate
select id, state, epoch, null::text from jobs.history
where queue = (select id from jobs.queue where name = $1) and id = any ($2::text[]) order by id for update
