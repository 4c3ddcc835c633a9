-- remove_queue_writers.sql: list the transactions that may be storing something for a queue that they do not know to be
-- leaving. A statement locks its tables before it looks at queues, and the transaction keeps the locks: so each has one now,
-- or is over. To read pg_locks keeps nobody waiting, and every role may.
-- Params: @writers those of which this is asked|null: all
-- Returns: one row: the virtual IDs of those transactions
-- Called by: (*Broker).Operate
select array(
  select distinct virtualtransaction from pg_locks
  where locktype = 'relation' and database = (select oid from pg_database where datname = current_database())
    and relation in ('jobs.job'::regclass, 'jobs.unique_key'::regclass, 'jobs.worker'::regclass)
    and mode = 'RowExclusiveLock' and pid is distinct from pg_backend_pid()
    and (@writers::text[] is null or virtualtransaction = any (@writers)))
