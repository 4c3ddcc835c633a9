-- queue_keyed.sql: note that jobs with a key come into a queue.
-- Params: @queue
-- Returns: nothing
-- Called by: (*Broker).Enqueue, before the first one
update jobs.queue set keyed = true where name = @queue and not keyed
