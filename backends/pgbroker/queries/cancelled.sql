-- cancelled.sql: move jobs that this transaction set to state 7 from job to history, or delete them if they have no retention.
-- If settle.sql set no job to state 7, this reads nothing.
-- Params: @now µs|null, @queue, @ids, which may include other jobs
-- Returns: nothing
-- Called by: the callers of settle.sql, after it; (*Broker).Operate, after operate_cancel.sql
with {{clock}}, place as materialized (
  select id, keep_completed, {{duplicate_span}} as duplicate_span from jobs.queue where name = @queue
), ended as (
  delete from jobs.job j where j.queue = (select id from place) and j.id = any (@ids::text[]) and j.state = 7
    and current_setting('jobs_settle.cancelled', true) is distinct from '0'
  returning j.*, coalesce(j.retention, (select keep_completed from place)) as keep
), kept as (
  insert into jobs.history (expires_at, day, finished_at, created_at, epoch, queue, deliveries, failures, crashes, snoozes, state, given,
    id, key, tail, body)
  select clock.now + e.keep, 0, clock.now, e.created_at, e.epoch, e.queue, e.deliveries, e.failures, e.crashes, e.snoozes,
         7, e.given, e.id, e.key, e.tail, e.body
  from clock, ended e where e.keep > 0
), remembered as (
  insert into jobs.remembered (queue, id, until)
  select e.queue, e.id, clock.now + place.duplicate_span from clock, place, ended e where e.given and e.keep = 0
  on conflict (id, queue) do update set until = excluded.until, epoch = excluded.epoch, replaced = excluded.replaced
), called as (
  insert into jobs.call (queue, key) select distinct queue, key from ended where head is not null
), {{freed}}
insert into jobs.count_delta (queue, cancelled)
select (select id from place), c.n from (select count(*) as n from ended where keep > 0) c where c.n > 0
