-- remove_queue_stay.sql: remove the mark of a queue that was to be removed.
-- Params: @queue
-- Returns: nothing
-- Called by: (*Broker).Operate
update jobs.queue set leaving = false where name = @queue and leaving
