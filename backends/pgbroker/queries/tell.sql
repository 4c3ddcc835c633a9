-- tell.sql: tell watchers of events: those that listen, and those that poll.
-- Params: $1 channel, $2 queue, $3 payloads, $4 whether to tell although nobody is known to watch
-- Returns: one row, of no use
-- Called by: (*Broker).Settle, (*Broker).Claim, (*Broker).Retire and (*Broker).Operate, after their transaction
with clock as materialized (
  select (extract(epoch from statement_timestamp()) * 1000000)::bigint as now
), place as materialized (
  select watched_until, polled_until from jobs.queue where name = $2
), posted as (
  insert into jobs.event (at, payload)
  select clock.now, n.payload from clock, place, unnest($3::text[]) as n(payload) where $4 or place.polled_until > clock.now
)
select count(pg_notify($1, n.payload)) from clock, place, unnest($3::text[]) as n(payload) where $4 or place.watched_until > clock.now
