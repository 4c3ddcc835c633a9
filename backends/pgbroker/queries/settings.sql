-- settings.sql: change settings for the rest of this transaction. A generic plan may be cached while a table is nearly empty, and
-- used when the table is large. So the settings allow only plans that read an index in its order, which is also the order of all
-- locks, and that join two lists by hash.
-- Params: @commit 'off' for a commit that a crash of the server may lose, null for no change; @lock_timeout|null
-- Returns: one row, which is ignored
-- Called by: every pipeline that searches by index
select set_config('enable_seqscan', 'off', true), set_config('enable_nestloop', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan',
         true),
       case when @commit::text is not null then set_config('synchronous_commit', @commit, true) end,
       case when @lock_timeout::text is not null then set_config('lock_timeout', @lock_timeout, true) end
