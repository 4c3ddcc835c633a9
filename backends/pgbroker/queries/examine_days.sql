-- examine_days.sql: compare the list of days with the partitions of history, and read the first and the last day.
-- Params: @schema
-- Returns: one row: today, listed days without a partition, days with a partition that are not listed, the first and the
--   last day listed|null, when the oldest record that is pruned one by one expired|null µs, deltas of counts
-- Called by: (*Broker).Examine
with clock as materialized (
  select {{store_time}} as now
), there as materialized (
  select substring(c.relname from '^history_([0-9]+)$')::int as day
  from pg_inherits i join pg_class c on c.oid = i.inhrelid
  where i.inhparent = to_regclass(format('%I.history', @schema::text)) and c.relname ~ '^history_[0-9]{1,9}$'
)
select (clock.now / 86400000000)::int, array(select day from jobs.history_day where day not in (select day from there)),
       array(select day from there where day not in (select day from jobs.history_day)),
       (select min(day) from jobs.history_day), (select max(day) from jobs.history_day),
       (select min(h.first) from jobs.queue q cross join lateral (select expires_at as first from jobs.history_other
         where queue = q.id order by expires_at limit 1) h),
       (select count(*) from (select from jobs.count_delta limit 100001) d)
from clock
