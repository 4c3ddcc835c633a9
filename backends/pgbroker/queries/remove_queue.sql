-- remove_queue.sql: mark a queue without jobs and live workers as leaving, or remove a marked queue that still has none.
-- Params: @now µs|null, @queue, @remove whether to remove it: only when all transactions that write know that it is leaving
-- Returns: one row: layout, 0 when there is no such queue, whether it is leaving now, or gone
-- Called by: (*Broker).Operate
with {{clock}}, place as materialized (
  select id, layout, leaving from jobs.queue where name = @queue for update
), idle as materialized (
  select p.id from place p, clock
  where p.layout <= 1 and (p.leaving or not @remove::boolean)
    and not exists (select from jobs.job where queue = p.id and state = 1)
    and not exists (select from jobs.job where queue = p.id and run_at is not null)
    and not exists (select from jobs.worker w where w.queue = p.id and exists (select from jobs.job j where j.worker = w.num))
    and not exists (select from jobs.dead where queue = p.id)
    and not exists (select from jobs.history where queue = p.id)
    and not exists (select from jobs.worker w join jobs.pulse on pulse.num = w.pulse
      where w.queue = p.id and w.ended_at is null and pulse.until > clock.now)
), leaving as (
  update jobs.queue set leaving = true where not @remove and id = (select id from idle)
), removed as materialized (
  select id from idle where @remove
), workers as (
  delete from jobs.worker w using removed r where w.queue = r.id returning w.num, w.pulse
), apart as (
  update jobs.pulse set intact = false where num = any (array(select pulse from workers)) and intact
), settled as (
  delete from jobs.settled s using workers where s.worker = workers.num
), keys as (
  delete from jobs.unique_key k using removed r where k.queue = r.id
), ids as (
  delete from jobs.remembered i using removed r where i.queue = r.id
), totals as (
  delete from jobs.count_total t using removed r where t.queue = r.id
), deltas as (
  delete from jobs.count_delta d using removed r where d.queue = r.id
), turns as (
  delete from jobs.key k using removed r where k.queue = r.id
), calls as (
  delete from jobs.call c using removed r where c.queue = r.id
), limits as (
  delete from jobs.limiter l using removed r where l.queue = r.id
), waiters as (
  delete from jobs.waiter w using removed r where w.queue = r.id
), gone as (
  delete from jobs.queue q using removed r where q.id = r.id
)
select coalesce((select layout from place), 0), exists (select from idle)
