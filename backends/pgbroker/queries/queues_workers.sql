-- queues_workers.sql: describe the workers that are alive in queues.
-- Params: @queues names|null for all
-- Returns: one row per queue and worker, by ID: queue, ID, until when its leases hold, leases, broker.AppendWorkerInfo
-- Called by: (*Broker).Queues
select q.name, w.id, w.until, (select count(*) from jobs.job j where j.worker = w.num), w.info
from jobs.queue q join jobs.worker w on w.queue = q.id
where w.ended_at is null and not w.drained and (@queues::text[] is null or q.name = any (@queues))
order by q.name, w.id
