-- operate_cancel.sql: cancel jobs that are neither active nor final.
-- Params: $1 now µs|null, $2 queue, $3 IDs, all of them locked, $4 channel for events
-- Returns: one row, of no use
-- Called by: (*Broker).Operate
with clock as materialized (
  select coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now,
         (extract(epoch from statement_timestamp()) * 1000000)::bigint as real
), place as materialized (
  select id, retain_age, coalesce(nullif(duplicate_span, 0), 3600000000) as duplicate_span, watched_until, polled_until
  from jobs.queue where name = $2
), ended as (
  delete from jobs.job j using place q where j.queue = q.id and j.id = any ($3::text[])
  returning j.*, coalesce(j.retention, q.retain_age) as keep
), kept as (
  insert into jobs.history (expires_at, day, finished_at, created_at, epoch, queue, deliveries, failures, crashes, snoozes, state, given, id, key, tail, body)
  select clock.now + e.keep, 0, clock.now, e.created_at, coalesce(e.epoch, 0) + 1, e.queue, e.deliveries, e.failures, e.crashes, e.snoozes,
         7, e.given, e.id, e.key, e.tail, e.body
  from clock, ended e where e.keep > 0
), remembered as (
  insert into jobs.remembered (queue, id, until)
  select e.queue, e.id, clock.now + place.duplicate_span from clock, place, ended e where e.given and e.keep = 0
  on conflict (queue, id) do update set until = excluded.until
), freed as (
  delete from jobs.unique_key u using ended e
  where e.unique_key is not null and u.queue = e.queue and u.key = e.unique_key and u.job = e.id and u.mode <> 2
), counted as (
  insert into jobs.count_delta (queue, pending, scheduled, retry, cancelled)
  select queue, -count(*) filter (where state = 1), -count(*) filter (where state = 2), -count(*) filter (where state = 4),
         count(*) filter (where keep > 0)
  from ended group by queue
), news as (
  select e's\n' || $2 || e'\n' || string_agg('7 ' || n.id, e'\n') as payload
  from clock, place, (select id, row_number() over () as ord from ended) n
  where place.watched_until > clock.real or place.polled_until > clock.real group by (n.ord - 1) / 20
), posted as (
  insert into jobs.event (at, payload) select clock.real, payload from clock, place, news where place.polled_until > clock.real
)
select (select count(*) from ended), (select count(pg_notify($4, news.payload)) from clock, place, news where place.watched_until > clock.real)
