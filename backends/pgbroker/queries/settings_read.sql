-- settings_read.sql: read the settings that settings.sql changes, to restore them later.
-- Params: none
-- Returns: one row: their values, the isolation of the transaction, and whether it may only read although the server can write
-- Called by: Enqueue in a caller's transaction, (*Broker).CompleteTx, before settings.sql
select current_setting('enable_seqscan'), current_setting('enable_nestloop'), current_setting('enable_mergejoin'),
       current_setting('enable_bitmapscan'), current_setting('jit'), current_setting('plan_cache_mode'), current_setting('lock_timeout'),
       current_setting('transaction_isolation'), current_setting('transaction_read_only')::boolean and not pg_is_in_recovery()
