-- settings_restore.sql: put the settings of a caller's transaction back.
-- Params: $1 to $7 what settings_read.sql returned
-- Returns: one row, of no use
-- Called by: Enqueue in a caller's transaction, (*Broker).CompleteTx
select set_config('enable_seqscan', $1, true), set_config('enable_nestloop', $2, true), set_config('enable_mergejoin', $3, true),
       set_config('enable_bitmapscan', $4, true), set_config('jit', $5, true), set_config('plan_cache_mode', $6, true),
       set_config('lock_timeout', $7, true)
