-- examine_counts.sql: count jobs and compare the results with the stored counts.
-- Params: @queue name of a queue|null for all, @floor of the deltas of counts
-- Returns: one row per queue: its number and name, by how much its counts of pending, scheduled, active, retry, completed, dead,
--   cancelled, waiting and suppressed jobs are too low, and by how much that of bytes
-- Called by: (*Broker).Examine
with {{differing}}
select * from differing order by name
