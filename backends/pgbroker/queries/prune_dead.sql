-- prune_dead.sql: remove dead jobs above the age or the number that their queue keeps, the oldest first.
-- Params: @now µs|null, @queue, @limit
-- Returns: one row: how many
-- Called by: (*Broker).Prune
with {{clock}}, place as materialized (
  select q.id, {{duplicate_span}} as duplicate_span, nullif(q.keep_dead, 0) as keep_dead,
         case when q.keep_dead_count = 0 then 0 else
           least(@limit, coalesce((select t.dead from jobs.count_total t where t.queue = q.id), 0)
             + coalesce((select sum(d.dead) from jobs.count_delta d where d.queue = q.id), 0) - q.keep_dead_count) end as surplus
  from jobs.queue q where q.name = @queue and q.layout <= 1 and (q.keep_dead > 0 or q.keep_dead_count > 0)
), gone as (
  delete from jobs.dead where queue = (select id from place) and id = any (array(
    select f.id from (
      select d.id, d.died_at, row_number() over () as ord
      from (select id, died_at from jobs.dead where queue = (select id from place) order by died_at, id limit @limit) d) f
    where f.ord <= (select surplus from place) or f.died_at + (select keep_dead from place) <= (select now from clock)))
  returning id, given, suppressed, key, head
), {{remembered}}, called as (
  insert into jobs.call (queue, key) select place.id, g.key from place, (select distinct key from gone where head is not null) g
), counted as (
  insert into jobs.count_delta (queue, dead) select place.id, -count(*) from place, gone group by place.id
), listed as (
  update jobs.count_total set suppressed = suppressed - (select count(*) from gone where suppressed)
  where queue = (select id from place) and exists (select from gone where suppressed)
)
select count(*) from gone
