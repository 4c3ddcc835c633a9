-- settings_restore.sql: restore the settings of a caller's transaction.
-- Params: @names and @values as in settings_read.sql
-- Returns: rows that are ignored
-- Called by: Enqueue in a caller's transaction, (*Broker).CompleteTx
select set_config(n.name, n.value, true) from unnest(@names::text[], @values::text[]) as n(name, value)
