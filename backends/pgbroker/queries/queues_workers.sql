-- queues_workers.sql: describe the workers that are alive in queues.
-- Params: $1 names|null for all
-- Returns: one row per queue and worker, by ID: queue, ID, until when its leases hold, leases, broker.AppendWorkerInfo
-- Called by: (*Broker).Queues
select q.name, w.id, w.until, (select count(*) from jobs.job j where j.worker = w.num), w.info
from jobs.queue q join jobs.worker w on w.queue = q.id
where w.ended_at is null and not w.drained and ($1::text[] is null or q.name = any ($1))
order by q.name, w.id
