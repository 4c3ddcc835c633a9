-- renew_held.sql: count a worker's leases.
-- Params: @worker, @queues
-- Returns: one row per queue that exists: queue, layout, leases
-- Called by: (*Broker).Renew
select q.name, q.layout, (select count(*) from jobs.job j where j.worker = w.num)
from unnest(@queues::text[]) as n(name)
cross join lateral (select id, name, layout from jobs.queue where name = n.name limit 1) q
left join lateral (select num from jobs.worker where queue = q.id and id = @worker limit 1) w on true
