-- remove_queue.sql: forget a queue that has no job and no live worker.
-- Nobody else may write to job, dead and history meanwhile.
-- Params: $1 now µs|null, $2 queue
-- Returns: one row: layout, 0 when there is no such queue, whether it was removed
-- Called by: (*Broker).Operate
with clock as materialized (
  select coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
), place as materialized (
  select id, layout from jobs.queue where name = $2 for update
), idle as materialized (
  select p.id from place p, clock
  where p.layout <= 1
    and not exists (select from jobs.job where queue = p.id and state = 1)
    and not exists (select from jobs.job where queue = p.id and run_at is not null)
    and not exists (select from jobs.worker w where w.queue = p.id and exists (select from jobs.job j where j.worker = w.num))
    and not exists (select from jobs.dead where queue = p.id)
    and not exists (select from jobs.history where queue = p.id)
    and not exists (select from jobs.worker where queue = p.id and ended_at is null and until > clock.now)
), workers as (
  delete from jobs.worker w using idle where w.queue = idle.id returning w.num
), settled as (
  delete from jobs.settled s using workers where s.worker = workers.num
), keys as (
  delete from jobs.unique_key k using idle where k.queue = idle.id
), ids as (
  delete from jobs.remembered r using idle where r.queue = idle.id
), totals as (
  delete from jobs.count_total t using idle where t.queue = idle.id
), deltas as (
  delete from jobs.count_delta d using idle where d.queue = idle.id
), gone as (
  delete from jobs.queue q using idle where q.id = idle.id returning 1
)
select coalesce((select layout from place), 0), exists (select from gone)
