-- day_end.sql: count the records of a partition that will be dropped, and remember the IDs that callers gave.
-- Params: @day
-- Returns: one row: completed, cancelled
-- Called by: (*Broker).Prune, in one transaction before the partition is dropped
with clock as materialized (
  select {{store_time}} as now
), gone as materialized (
  select queue, count(*) filter (where state = 5) as completed, count(*) filter (where state = 7) as cancelled
  from jobs.history where day = @day group by queue
), remembered as (
  insert into jobs.remembered (queue, id, until)
  select h.queue, h.id, clock.now + {{duplicate_span}}
  from clock, jobs.history h join jobs.queue q on q.id = h.queue where h.day = @day and h.given
  on conflict (id, queue) do update set until = excluded.until, epoch = excluded.epoch, replaced = excluded.replaced
), counted as (
  insert into jobs.count_delta (queue, completed, cancelled) select queue, -completed, -cancelled from gone
), ended as (
  delete from jobs.history_day where day = @day
)
select coalesce(sum(completed), 0)::bigint, coalesce(sum(cancelled), 0)::bigint from gone
