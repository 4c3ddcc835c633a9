-- examine_workers.sql: read a page of workers.
-- Params: @id and @queue number of a queue after which the page begins, @limit
-- Returns: one row per worker, in the order of the page: ID, number and name of the queue|null, layout, whether it counts as
--   drained although it is alive
-- Called by: (*Broker).Examine
select w.id, w.queue, q.name, coalesce(q.layout, 0), w.drained and w.ended_at is null
from (select * from jobs.worker where (id, queue) > (@id::text, @queue::int) order by id, queue limit @limit) w
left join lateral (select name, layout from jobs.queue where id = w.queue limit 1) q on true
order by w.id, w.queue
