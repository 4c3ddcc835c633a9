-- operate_ask.sql: ask the holders of active jobs to cancel them.
-- Params: $1 queue, $2 IDs, all of them locked, $3 channel for events
-- Returns: one row, of no use
-- Called by: (*Broker).Operate
with clock as materialized (
  select (extract(epoch from statement_timestamp()) * 1000000)::bigint as real
), place as materialized (
  select id, polled_until from jobs.queue where name = $1
), asked as (
  update jobs.job set cancel = true
  where queue = (select id from place) and id = any ($2::text[]) and cancel is not true
), news as (
  select e'c\n' || $1 || e'\n' || string_agg('3 ' || n.id, e'\n') as payload
  from unnest($2::text[]) with ordinality as n(id, ord) group by (n.ord - 1) / 20
), posted as (
  insert into jobs.event (at, payload) select clock.real, payload from clock, place, news where place.polled_until > clock.real
)
select count(pg_notify($3, news.payload)) from news
