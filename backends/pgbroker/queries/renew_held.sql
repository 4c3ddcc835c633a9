-- renew_held.sql: count a worker's leases, list those whose cancelling was asked for, and say when the next
-- leases of anybody run out; those of an ended worker that still holds jobs have.
-- Params: $1 now µs|null, $2 worker, $3 queues
-- Returns: one row per queue that exists: queue, now, layout, leases, when leases run out|null, IDs to cancel|null, their epochs|null
-- Called by: (*Broker).Renew
select q.name, coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint), q.layout, h.held,
  (select min(until) from jobs.worker where queue = q.id and not drained), h.ids, h.epochs
from unnest($3::text[]) as n(name)
cross join lateral (select id, name, layout from jobs.queue where name = n.name limit 1) q
left join lateral (select num from jobs.worker where queue = q.id and id = $2 limit 1) w on true
cross join lateral (
  select count(*) as held, array_agg(j.id order by j.id) filter (where j.cancel) as ids,
         array_agg(coalesce(j.epoch, 0) order by j.id) filter (where j.cancel) as epochs
  from jobs.job j where j.worker = w.num) h
