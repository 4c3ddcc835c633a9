-- examine_forget.sql: forget an ID of a queue that is gone.
-- Params: @id, @queue number of its queue
-- Returns: nothing
-- Called by: (*Broker).Examine
delete from jobs.remembered where id = @id and queue = @queue and not exists (select from jobs.queue where id = @queue)
