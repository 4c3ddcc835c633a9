-- tell.sql: publish events to watchers that listen, and to watchers that poll.
-- Params: @channel, @queue, @payloads, @always whether to publish even if no watcher is known
-- Returns: one row, which is ignored
-- Called by: (*Broker).Settle, (*Broker).Claim, (*Broker).Retire and (*Broker).Operate, after their transaction
with clock as materialized (
  select {{store_time}} as now
), place as materialized (
  select watched_until, polled_until from jobs.queue where name = @queue
), posted as (
  insert into jobs.event (at, payload)
  select clock.now, n.payload from clock, place, unnest(@payloads::text[]) as n(payload) where @always or place.polled_until > clock.now
)
select count(pg_notify(@channel, n.payload)) from clock, place, unnest(@payloads::text[]) as n(payload)
  where @always or place.watched_until > clock.now
