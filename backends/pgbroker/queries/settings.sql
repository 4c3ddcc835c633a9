-- settings.sql: settings for the rest of this transaction. A generic plan is cached while a table is nearly empty and
-- used when it is not: so of the plans for a statement only those by index are left, in its order, which is that of all locks,
-- and of joins of two lists those by hash.
-- Params: $1 'off' for a commit that may be lost with the server's memory, null to leave it; $2 lock timeout|null
-- Returns: one row, of no use
-- Called by: every pipeline that searches by index
select set_config('enable_seqscan', 'off', true), set_config('enable_nestloop', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true),
       case when $1::text is not null then set_config('synchronous_commit', $1, true) end,
       case when $2::text is not null then set_config('lock_timeout', $2, true) end
