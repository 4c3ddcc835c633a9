-- operate_delete.sql: delete jobs that are not active, from all tables.
-- Params: @now µs|null, @queue, @ids, all of them locked, @elsewhere whether another store has them now
-- Returns: nothing
-- Called by: (*Broker).Operate
with {{clock}}, place as materialized (
  select id, {{duplicate_span}} as duplicate_span from jobs.queue where name = @queue
), live as (
  delete from jobs.job where queue = (select id from place) and id = any (@ids::text[]) returning id, state, given, unique_key,
    coalesce(epoch, 0) as epoch, key, head, octet_length(body) as size
), died as (
  delete from jobs.dead where queue = (select id from place) and id = any (@ids::text[]) returning id, 6::smallint as state, given, epoch,
    suppressed, key, head
), kept as (
  delete from jobs.history where queue = (select id from place) and id = any (@ids::text[]) returning id, state, given, epoch
), gone as materialized (
  select id, state, given, epoch from live union all select id, state, given, epoch from died union all select id, state, given,
    epoch from kept
), freed as (
  delete from jobs.unique_key u using live e
  where e.unique_key is not null and u.queue = (select id from place) and u.key = e.unique_key and u.job = e.id and u.mode <> 2
), remembered as (
  insert into jobs.remembered (queue, id, until, epoch)
  select place.id, gone.id, clock.now + place.duplicate_span, case when @elsewhere::boolean then gone.epoch end from clock, place,
    gone where gone.given
  on conflict (id, queue) do update set until = excluded.until, epoch = excluded.epoch, replaced = excluded.replaced
), called as (
  -- Call the keys of deleted heads, since the heads no longer keep them back.
  insert into jobs.call (queue, key)
  select place.id, h.key from place, (select key from live where head is not null union select key from died where head is not null) h
), shown as (
  update jobs.count_total set suppressed = suppressed - (select count(*) from died where suppressed)
  where queue = (select id from place) and exists (select from died where suppressed)
)
insert into jobs.count_delta (queue, pending, scheduled, retry, completed, dead, cancelled, waiting, bytes)
select place.id, -count(*) filter (where state = 1), -count(*) filter (where state = 2), -count(*) filter (where state = 4),
       -count(*) filter (where state = 5), -count(*) filter (where state = 6), -count(*) filter (where state = 7),
       nullif(-count(*) filter (where state = 8), 0),
       -coalesce((select sum(size) from live), 0)
from place, gone group by place.id
