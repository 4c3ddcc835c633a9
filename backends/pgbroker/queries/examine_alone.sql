-- examine_alone.sql: let one examination correct counts at a time. Otherwise two that compare at once both correct a difference.
-- Params: @lock number of the lock, which the transaction holds to its end
-- Returns: one row without meaning
-- Called by: (*Broker).Examine, before examine_recount.sql
select pg_advisory_xact_lock(@lock)
