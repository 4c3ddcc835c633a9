-- day_mine.sql: let one server at a time change the partitions. Nobody waits for another.
-- Params: @lock number of the lock
-- Returns: one row: whether it is this transaction
-- Called by: (*Broker).Prune, at the beginning of a transaction
select pg_try_advisory_xact_lock(@lock)
