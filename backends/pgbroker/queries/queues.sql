-- queues.sql: describe queues, by name.
-- Params: @queues names|null for all, @floor of the deltas of counts
-- Returns: one row per queue: columns of queueRow
-- Called by: (*Broker).Queues
with delta as materialized (
  select queue, sum(pending) as pending, sum(scheduled) as scheduled, sum(active) as active, sum(retry) as retry,
         sum(completed) as completed, sum(dead) as dead, sum(cancelled) as cancelled
  from jobs.count_delta where n > @floor group by queue
)
select q.name, q.layout, q.paused, q.max_depth, q.retain_age, q.retain_count, q.dead_age, q.dead_count, q.duplicate_span, q.priority_round,
       (coalesce(t.pending, 0) + coalesce(d.pending, 0))::bigint, (coalesce(t.scheduled, 0) + coalesce(d.scheduled, 0))::bigint,
       (coalesce(t.active, 0) + coalesce(d.active, 0))::bigint, (coalesce(t.retry, 0) + coalesce(d.retry, 0))::bigint,
       (coalesce(t.completed, 0) + coalesce(d.completed, 0))::bigint, (coalesce(t.dead, 0) + coalesce(d.dead, 0))::bigint,
       (coalesce(t.cancelled, 0) + coalesce(d.cancelled, 0))::bigint,
       array(select (
          select j.created_at from generate_series(2 * p, 2 * p + 1) as l(lane) cross join lateral (
            select created_at from jobs.job where state = 1 and queue = q.id and lane = l.lane::smallint order by seq limit 1) j limit 1)
          from generate_series(1, 4) as p),
       (select run_at from jobs.job where queue = q.id and state = 2 and run_at is not null order by run_at limit 1),
       (select run_at from jobs.job where queue = q.id and state = 4 and run_at is not null order by run_at limit 1),
       (select finished_at from jobs.history where queue = q.id and state = 5 order by finished_at limit 1),
       (select died_at from jobs.dead where queue = q.id order by died_at limit 1),
       (select finished_at from jobs.history where queue = q.id and state = 7 order by finished_at limit 1),
       coalesce(t.waiting, 0), coalesce(t.suppressed, 0)
from jobs.queue q left join jobs.count_total t on t.queue = q.id left join delta d on d.queue = q.id
where @queues::text[] is null or q.name = any (@queues)
order by q.name
