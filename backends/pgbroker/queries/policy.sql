-- policy.sql: read a queue's policy.
-- Params: @queue
-- Returns: at most one row: layout and the columns of policyRow
-- Called by: (*Broker).Policy
select layout, paused, max_depth, retain_age, retain_count, dead_age, dead_count, duplicate_span, priority_round
from jobs.queue where name = @queue
