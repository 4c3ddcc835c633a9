-- remove_queue_stay.sql: let a queue stay that was to be removed.
-- Params: $1 queue
-- Returns: nothing
-- Called by: (*Broker).Operate
update jobs.queue set leaving = false where name = $1 and leaving
