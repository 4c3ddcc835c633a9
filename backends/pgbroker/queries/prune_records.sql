-- prune_records.sql: remove completed and cancelled records whose retention is over and that are not in the partition of a day.
-- Params: @now µs|null, @queue, @limit
-- Returns: one row: completed, cancelled
-- Called by: (*Broker).Prune
with {{clock}}, place as materialized (
  select id, {{duplicate_span}} as duplicate_span from jobs.queue where name = @queue and layout <= 1
), gone as (
  delete from jobs.history_other where ctid = any (array(
    select ctid from jobs.history_other
    where queue = (select id from place) and expires_at <= (select now from clock)
    order by expires_at limit @limit for update skip locked))
  returning id, state, given
), {{remembered}}, counted as (
  insert into jobs.count_delta (queue, completed, cancelled)
  select place.id, -count(*) filter (where state = 5), -count(*) filter (where state = 7) from place, gone group by place.id
)
select count(*) filter (where state = 5), count(*) filter (where state = 7) from gone
