-- examine_server.sql: read settings of the server that matter, and which sessions hold rows back.
-- Params: @long how long, µs
-- Returns: one row: clock µs, settings that endanger commits, whether autovacuum is on, why nobody can write|null,
--   one text for each holder
-- Called by: (*Broker).Examine
select (extract(epoch from clock_timestamp()) * 1000000)::bigint,
  array(select name || ' is ' || setting from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit')
    and setting = 'off' order by name),
  current_setting('autovacuum') = 'on',
  case when pg_is_in_recovery() then 'the server is a replica, in recovery' else (
    select 'default_transaction_read_only is on, by ' || source from pg_settings
    where name = 'default_transaction_read_only' and setting = 'on' and source not in ('user', 'client', 'session')) end,
  array(
    select 'process ' || pid || ' of ' || coalesce(usename, '?') || ' (' || coalesce(application_name,
      '') || ') has had a transaction open for '
           || (extract(epoch from clock_timestamp() - xact_start))::bigint || 's'
    from pg_stat_activity
    where (backend_xmin is not null or backend_xid is not null) and datname = current_database()
      and xact_start < clock_timestamp() - @long::bigint * interval '1 microsecond'
      and pid <> pg_backend_pid() and backend_type = 'client backend'
    union all
    select 'prepared transaction ' || gid || ' is open since ' || prepared from pg_prepared_xacts
    where database = current_database() and prepared < clock_timestamp() - @long::bigint * interval '1 microsecond'
    union all
    select 'replication slot ' || slot_name || ' is not in use and holds rows back' from pg_replication_slots
    where not active and (xmin is not null or (catalog_xmin is not null and database = current_database())))
