-- day_wanted.sql: which partitions of history there are, and how far ahead queues need them.
-- Params: none
-- Returns: one row: now µs, the days of the partitions, how many days the queues keep records that go by whole days
-- Called by: (*Broker).Prune
select (extract(epoch from statement_timestamp()) * 1000000)::bigint, array(select day from jobs.history_day),
       (select coalesce(max(retain_age) / 86400000000, 0)::int from jobs.queue where retain_age >= 86400000000 and retain_count = 0)
