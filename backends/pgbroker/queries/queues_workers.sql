-- queues_workers.sql: describe the workers that are alive in queues, and count their leases if the count is not known.
-- Params: @queues names|null for all, @known numbers of workers that are not counted
-- Returns: one row per queue and worker, by ID: queue, ID, until when its leases hold, broker.AppendWorkerInfo, its number,
--   leases|null, how long the statement has taken up to there, µs
-- Called by: (*Broker).Queues
select q.name, w.id, p.until, w.info, w.num,
  case when (w.num = any (@known::bigint[])) is not true then (select count(*) from jobs.job j where j.worker = w.num) end,
  (extract(epoch from clock_timestamp() - statement_timestamp()) * 1000000)::bigint
from jobs.queue q join jobs.worker w on w.queue = q.id cross join lateral (select until from jobs.pulse where num = w.pulse limit 1) p
where w.ended_at is null and not w.drained and (@queues::text[] is null or q.name = any (@queues))
order by q.name, w.id
