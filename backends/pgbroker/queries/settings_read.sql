-- settings_read.sql: read the settings that settings.sql changes, to restore them later.
-- Params: @names
-- Returns: one row: their values, the isolation of the transaction, and whether it may only read although the server can write
-- Called by: Enqueue in a caller's transaction, (*Broker).CompleteTx, before settings.sql
select array(select current_setting(n.name) from unnest(@names::text[]) with ordinality as n(name, ord) order by n.ord),
       current_setting('transaction_isolation'), current_setting('transaction_read_only')::boolean and not pg_is_in_recovery()
