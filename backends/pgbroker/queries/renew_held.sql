-- renew_held.sql: count a worker's leases, if asked to, list those that were asked to cancel, and say when the next
-- leases of any worker run out; those of an ended worker that still holds jobs have run out.
-- Params: @now µs|null, @worker, @queues, @count whether to count
-- Returns: one row per queue that exists: queue, now, layout, leases|null, when leases run out|null, IDs to cancel|null, their epochs|null
-- Called by: (*Broker).Renew
select q.name, coalesce(@now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint), q.layout,
  case when @count::boolean then (select count(*) from jobs.job j where j.worker = w.num) end,
  (select min(until) from jobs.worker where queue = q.id and not drained), c.ids, c.epochs
from unnest(@queues::text[]) as n(name)
cross join lateral (select id, name, layout from jobs.queue where name = n.name limit 1) q
left join lateral (select num from jobs.worker where queue = q.id and id = @worker limit 1) w on true
cross join lateral (
  select array_agg(j.id order by j.id) as ids, array_agg(coalesce(j.epoch, 0) order by j.id) as epochs
  from jobs.job j where j.worker = w.num and j.cancel) c
