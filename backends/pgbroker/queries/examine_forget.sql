-- examine_forget.sql: forget an ID of a queue that is gone.
-- Params: $1 ID, $2 number of its queue
-- Returns: nothing
-- Called by: (*Broker).Examine
delete from jobs.remembered where id = $1 and queue = $2 and not exists (select from jobs.queue where id = $2)
