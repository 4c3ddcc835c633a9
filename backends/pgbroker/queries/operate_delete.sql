-- operate_delete.sql: delete jobs that are not active, wherever they are.
-- Params: $1 now µs|null, $2 queue, $3 IDs, all of them locked
-- Returns: nothing
-- Called by: (*Broker).Operate
with clock as materialized (
  select coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
), place as materialized (
  select id, coalesce(nullif(duplicate_span, 0), 3600000000) as duplicate_span from jobs.queue where name = $2
), live as (
  delete from jobs.job where queue = (select id from place) and id = any ($3::text[]) returning id, state, given, unique_key
), died as (
  delete from jobs.dead where queue = (select id from place) and id = any ($3::text[]) returning id, 6::smallint as state, given
), kept as (
  delete from jobs.history where queue = (select id from place) and id = any ($3::text[]) returning id, state, given
), gone as materialized (
  select id, state, given from live union all select id, state, given from died union all select id, state, given from kept
), freed as (
  delete from jobs.unique_key u using live e
  where e.unique_key is not null and u.queue = (select id from place) and u.key = e.unique_key and u.job = e.id and u.mode <> 2
), remembered as (
  insert into jobs.remembered (queue, id, until)
  select place.id, gone.id, clock.now + place.duplicate_span from clock, place, gone where gone.given
  on conflict (id, queue) do update set until = excluded.until
)
insert into jobs.count_delta (queue, pending, scheduled, retry, completed, dead, cancelled)
select place.id, -count(*) filter (where state = 1), -count(*) filter (where state = 2), -count(*) filter (where state = 4),
       -count(*) filter (where state = 5), -count(*) filter (where state = 6), -count(*) filter (where state = 7)
from place, gone group by place.id
