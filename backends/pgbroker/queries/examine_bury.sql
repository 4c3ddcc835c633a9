-- examine_bury.sql: make a job dead whose due time is lost.
-- Params: @now µs|null, @id and @queue number of its queue, locked, @more what is appended to its tail
-- Returns: nothing
-- Called by: (*Broker).Examine, in one transaction after examine_lock.sql
with {{clock}}, lost as (
  delete from jobs.job where id = @id and queue = @queue returning *
), freed as (
  delete from jobs.unique_key u using lost where u.key = lost.unique_key and u.queue = lost.queue and u.job = lost.id and u.mode <> 2
), counted as (
  insert into jobs.count_delta (queue, scheduled, retry, dead, bytes)
  select queue, -(state = 2)::int, -(state = 4)::int, 1, -octet_length(body) from lost
)
insert into jobs.dead (died_at, created_at, epoch, retention, queue, deliveries, failures, crashes, snoozes, lane, given, id, key,
  unique_key, tail, body)
select clock.now, l.created_at, coalesce(l.epoch, 0) + 1, l.retention, l.queue, l.deliveries, l.failures, l.crashes, l.snoozes,
       l.lane / 2 * 2 + 1, l.given, l.id, l.key, l.unique_key, coalesce(l.tail, '') || @more::bytea, l.body
from clock, lost l
on conflict (id, queue) do nothing
