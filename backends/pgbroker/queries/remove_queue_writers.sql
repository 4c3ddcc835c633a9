-- remove_queue_writers.sql: list the transactions that may be writing to a queue without knowing that it is leaving.
-- A statement locks its tables before it reads queues, and its transaction keeps the locks. So each such transaction has a lock
-- now, or has ended. Reading pg_locks blocks no other transaction, and every role may do it.
-- Params: @writers those to check|null for all
-- Returns: one row: the virtual IDs of those transactions
-- Called by: (*Broker).Operate
select array(
  select distinct virtualtransaction from pg_locks
  where locktype = 'relation' and database = (select oid from pg_database where datname = current_database())
    and relation in ('jobs.job'::regclass, 'jobs.unique_key'::regclass, 'jobs.worker'::regclass)
    and mode = 'RowExclusiveLock' and pid is distinct from pg_backend_pid()
    and (@writers::text[] is null or virtualtransaction = any (@writers)))
