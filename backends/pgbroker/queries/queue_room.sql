-- queue_room.sql: say why a queue is not served, or how many jobs it has room for.
-- Params: $1 queue
-- Returns: at most one row: number, layout, depth limit, pending and scheduled jobs
-- Called by: (*Broker).Enqueue; every method that found a queue unserved
select q.id, q.layout, q.max_depth,
       coalesce((select t.pending + t.scheduled from jobs.count_total t where t.queue = q.id), 0)
         + coalesce((select sum(d.pending + d.scheduled) from jobs.count_delta d where d.queue = q.id), 0)::bigint
from jobs.queue q where q.name = $1
