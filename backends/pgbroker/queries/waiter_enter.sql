-- waiter_enter.sql: record that a claim of this process waits for queues, so that other processes wake it.
-- Params: @queues, @self its listener, @most how many are counted at most
-- Returns: one row: how many other processes wait for the queue with the fewest waiting processes
-- Called by: (*Broker).enterWaiters
with place as materialized (
  select id from jobs.queue where name = any (@queues::text[])
), entered as (
  insert into jobs.waiter (queue, listener) select id, @self from place on conflict do nothing
)
select coalesce(min(c.n), 0) from place
cross join lateral (select count(*) as n from (select from jobs.waiter w where w.queue = place.id and w.listener <> @self limit @most) o) c
