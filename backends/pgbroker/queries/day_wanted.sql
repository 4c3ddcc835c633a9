-- day_wanted.sql: read which days have partitions of history, and for how many days ahead queues need partitions.
-- Params: @schema, @days how many days ahead there are partitions at most
-- Returns: one row: today, the days listed, the days that have a partition, how many days the queues keep records that go
--   by whole days
-- Called by: (*Broker).Prune
select floor(extract(epoch from statement_timestamp()) / 86400)::int, array(select day from jobs.history_day),
       array(select substring(c.relname from '^history_([0-9]+)$')::int from pg_inherits i join pg_class c on c.oid = i.inhrelid
             where i.inhparent = to_regclass(format('%I.history', @schema::text)) and c.relname ~ '^history_[0-9]{1,9}$'),
       (select coalesce(max(keep_completed / 86400000000), 0)::int from jobs.queue
        where keep_completed / 86400000000 between 1 and @days and keep_completed_count = 0)
