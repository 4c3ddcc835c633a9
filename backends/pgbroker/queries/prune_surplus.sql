-- prune_surplus.sql: remove completed and cancelled records above the number that their queue keeps, the oldest first.
-- Params: @now µs|null, @queue, @limit
-- Returns: one row: completed, cancelled
-- Called by: (*Broker).Prune, after prune_records.sql
with {{clock}}, place as materialized (
  select q.id, {{duplicate_span}} as duplicate_span,
         least(@limit, coalesce((select t.completed + t.cancelled from jobs.count_total t where t.queue = q.id), 0)
           + coalesce((select sum(d.completed + d.cancelled) from jobs.count_delta d where d.queue = q.id), 0)
           - q.keep_completed_count) as surplus
  from jobs.queue q where q.name = @queue and q.layout <= 1 and q.keep_completed_count > 0
), first as materialized (
  select h.id, h.finished_at from place cross join (values (5::smallint), (7)) as s(state) cross join lateral (
    select id, finished_at from jobs.history where queue = place.id and state = s.state
    order by finished_at, id limit greatest(place.surplus, 0)) h
), gone as (
  delete from jobs.history where queue = (select id from place) and id = any (array(
    select id from first order by finished_at, id limit greatest((select surplus from place), 0)))
  returning id, state, given
), {{remembered}}, counted as (
  insert into jobs.count_delta (queue, completed, cancelled)
  select place.id, -count(*) filter (where state = 5), -count(*) filter (where state = 7) from place, gone group by place.id
)
select count(*) filter (where state = 5), count(*) filter (where state = 7) from gone
