-- settings_restore.sql: restore the settings of a caller's transaction.
-- Params: what settings_read.sql returned: @seqscan, @nestloop, @mergejoin, @bitmapscan, @jit, @plans, @lock_timeout
-- Returns: one row, which is ignored
-- Called by: Enqueue in a caller's transaction, (*Broker).CompleteTx
select set_config('enable_seqscan', @seqscan, true), set_config('enable_nestloop', @nestloop, true), set_config('enable_mergejoin',
  @mergejoin, true),
       set_config('enable_bitmapscan', @bitmapscan, true), set_config('jit', @jit, true), set_config('plan_cache_mode', @plans, true),
       set_config('lock_timeout', @lock_timeout, true)
