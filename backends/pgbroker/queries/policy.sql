-- policy.sql: read a queue's policy.
-- Params: @queue
-- Returns: at most one row: layout, policy
-- Called by: (*Broker).Policy
select layout, policy from jobs.queue where name = @queue
