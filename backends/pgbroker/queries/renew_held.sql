-- renew_held.sql: count a worker's leases, and list those whose cancelling was asked for.
-- Params: $1 now µs|null, $2 worker, $3 queues
-- Returns: one row per queue that exists: queue, now, layout, leases, IDs to cancel|null, their epochs|null
-- Called by: (*Broker).Renew
select q.name, coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint), q.layout, h.held, h.ids, h.epochs
from jobs.queue q left join jobs.worker w on w.queue = q.id and w.id = $2
cross join lateral (
  select count(*) as held, array_agg(j.id order by j.id) filter (where j.cancel) as ids,
         array_agg(coalesce(j.epoch, 0) order by j.id) filter (where j.cancel) as epochs
  from jobs.job j where j.worker = w.num) h
where q.name = any ($3::text[])
