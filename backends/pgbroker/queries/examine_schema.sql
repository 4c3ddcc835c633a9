-- examine_schema.sql: read the last migration, and which tables and indexes exist.
-- Params: @schema
-- Returns: one row per table or index: last migration, name, whether it is an index, whether it is logged, whether the index
--   is valid, whether autovacuum is switched off for the table, dead rows, live rows, minutes since the last autovacuum|null
-- Called by: (*Broker).Examine
select (select coalesce(max(number), 0) from jobs.migration), c.relname::text, c.relkind in ('i', 'I'), c.relpersistence = 'p',
       coalesce(i.indisvalid and i.indisready, true), coalesce('autovacuum_enabled=false' = any (c.reloptions), false),
       coalesce(s.n_dead_tup, 0), coalesce(s.n_live_tup, 0), (extract(epoch from clock_timestamp() - s.last_autovacuum) / 60)::bigint
from pg_class c left join pg_index i on i.indexrelid = c.oid left join pg_stat_user_tables s on s.relid = c.oid
where c.relnamespace = to_regnamespace(quote_ident(@schema)) and c.relkind in ('r', 'p', 'i', 'I')
order by c.relname
