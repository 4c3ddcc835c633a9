-- settings.sql: settings for the rest of this transaction. Generic plans are cached while a table is nearly empty and
-- used when it is not; of the plans that remain possible all go by index.
-- Params: $1 'off' for a commit that may be lost with the server's memory, or 'on'|null to leave it; $2 lock timeout|null, $3 'off' where joins of two long
--   lists must not be, else 'on'
-- Returns: one row, of no use
-- Called by: every pipeline that searches job
select set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', $3, true), set_config('enable_mergejoin', 'off', true),
       set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true),
       case when $1::text is not null then set_config('synchronous_commit', $1, true) end,
       case when $2::text is not null then set_config('lock_timeout', $2, true) end
