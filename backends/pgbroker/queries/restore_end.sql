-- restore_end.sql: remove the new jobs whose IDs have a record in another table. Move jobs that had ended to dead or to history, or
-- delete them if their retention is over.
-- Params: @now µs|null, @queue, @keep IDs to keep, @until their ends µs, 0 for none, @take_back IDs to take back, @token|null of the
--   keys that were taken, @self|null and @payload as in wake.sql, @suppressed of those to keep, whether they are suppressed
-- Returns: one row, which is ignored
-- Called by: (*Broker).Enqueue, in one transaction after enqueue_known.sql
with {{clock}}, place as materialized (
  select id, keep_completed from jobs.queue where name = @queue
), undone as (
  delete from jobs.job where queue = (select id from place) and id = any (@take_back::text[])
), freed as (
  delete from jobs.unique_key u
  where @token::bigint is not null and u.queue = (select id from place) and u.token = @token and u.job = any (@take_back)
    and u.key = any (array(select unique_key from jobs.job where queue = (select id from place) and id = any (@take_back)
      and unique_key is not null))
), live as materialized (
  select state, key, octet_length(body) as size from jobs.job
  where queue = (select id from place) and id = any (@keep::text[]) and state < 5
), ended as (
  delete from jobs.job j using clock, unnest(@keep::text[], @until::bigint[], @suppressed::boolean[]) as n(id, finished, suppressed)
  where j.queue = (select id from place) and j.id = any (@keep) and j.id = n.id and j.state >= 5
  returning j.*, coalesce(nullif(n.finished, 0), clock.now) as finished, coalesce(j.retention, (select keep_completed from place)) as keep,
    nullif(n.suppressed and j.state = 6, false) as suppressed
), died as (
  insert into jobs.dead (died_at, created_at, epoch, retention, queue, deliveries, failures, crashes, snoozes, lane, given, suppressed,
    id, key, unique_key, tail, body)
  select e.finished, e.created_at, e.epoch, e.retention, e.queue, e.deliveries, e.failures, e.crashes, e.snoozes,
         e.lane, e.given, e.suppressed, e.id, e.key, e.unique_key, e.tail, e.body
  from ended e where e.state = 6
), kept as (
  insert into jobs.history (expires_at, day, finished_at, created_at, epoch, queue, deliveries, failures, crashes, snoozes, state, given,
    id, key, tail, body)
  select e.finished + e.keep, 0, e.finished, e.created_at, e.epoch, e.queue, e.deliveries, e.failures, e.crashes, e.snoozes,
         e.state, e.given, e.id, e.key, e.tail, e.body
  from clock, ended e where e.state <> 6 and e.finished + e.keep > clock.now
  returning state
), called as (
  insert into jobs.call (queue, key)
  select place.id, l.key from place, (select distinct key from live where state = 1 and key is not null) l
), counted as (
  insert into jobs.count_delta (queue, pending, scheduled, retry, dead, completed, cancelled, bytes)
  select (select id from place), l.pending, l.scheduled, l.retry, e.dead, k.completed, k.cancelled, l.bytes
  from (select count(*) filter (where state = 1) as pending, count(*) filter (where state = 2) as scheduled,
               count(*) filter (where state = 4) as retry,
               coalesce(sum(size), 0) as bytes from live) l,
       (select count(*) as dead from ended where state = 6) e,
       (select count(*) filter (where state = 5) as completed, count(*) filter (where state = 7) as cancelled from kept) k
  where l.pending + l.scheduled + l.retry + e.dead + k.completed + k.cancelled > 0
), unlisted as (
  insert into jobs.count_total as t (queue, suppressed)
  select (select id from place), o.n from (select count(*) as n from ended where suppressed) o where o.n > 0
  on conflict (queue) do update set suppressed = t.suppressed + excluded.suppressed
)
select case when @self::int is not null then ({{notified}}) end
