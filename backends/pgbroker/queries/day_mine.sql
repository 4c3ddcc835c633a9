-- day_mine.sql: take the lock that lets only one server at a time change the partitions, if the lock is free.
-- Params: @lock number of the lock
-- Returns: one row: whether this transaction has the lock
-- Called by: (*Broker).Prune, at the beginning of a transaction
select pg_try_advisory_xact_lock(@lock)
