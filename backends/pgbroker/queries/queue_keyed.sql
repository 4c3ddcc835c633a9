-- queue_keyed.sql: record that a queue has jobs with a key.
-- Params: @queue
-- Returns: nothing
-- Called by: (*Broker).Enqueue, before the first job with a key
update jobs.queue set keyed = true where name = @queue and not keyed
