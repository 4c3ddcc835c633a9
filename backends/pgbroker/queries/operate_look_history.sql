-- operate_look_history.sql: look at completed and cancelled records, and lock them.
-- Params: @queue, @ids
-- Returns: one row per record: ID, state, epoch, nothing
-- Called by: (*Broker).Operate
select id, state, epoch, null::text from jobs.history
where queue = (select id from jobs.queue where name = @queue) and id = any (@ids::text[]) order by id for update
