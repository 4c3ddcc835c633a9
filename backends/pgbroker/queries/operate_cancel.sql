-- operate_cancel.sql: cancel jobs that are neither active nor final; cancelled.sql then moves them.
-- Params: $1 queue, $2 IDs, all of them locked, $3 channel for events
-- Returns: one row, of no use
-- Called by: (*Broker).Operate
with clock as materialized (
  select (extract(epoch from statement_timestamp()) * 1000000)::bigint as real
), place as materialized (
  select id, watched_until, polled_until from jobs.queue where name = $1
), was as materialized (
  select state from jobs.job where queue = (select id from place) and id = any ($2::text[])
), ended as (
  update jobs.job set state = 7, epoch = coalesce(epoch, 0) + 1 where queue = (select id from place) and id = any ($2::text[])
), counted as (
  insert into jobs.count_delta (queue, pending, scheduled, retry)
  select (select id from place), -count(*) filter (where state = 1), -count(*) filter (where state = 2), -count(*) filter (where state = 4)
  from was
), news as (
  select e's\n' || $1 || e'\n' || string_agg('7 ' || n.id, e'\n') as payload
  from clock, place, unnest($2::text[]) with ordinality as n(id, ord)
  where place.watched_until > clock.real or place.polled_until > clock.real group by (n.ord - 1) / 20
), posted as (
  insert into jobs.event (at, payload) select clock.real, payload from clock, place, news where place.polled_until > clock.real
)
select count(pg_notify($3, news.payload)) from clock, place, news where place.watched_until > clock.real
