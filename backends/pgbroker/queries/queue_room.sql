-- queue_room.sql: read why a queue is not served, or what it has and which limits it has.
-- Params: @queue, @floor of the deltas of counts
-- Returns: at most one row: number, layout, 0 when it is being removed, policy, whether it limits what an enqueue may store, whether
--   the queue has had jobs with a key, number of pending, scheduled and waiting jobs, bytes of these and of jobs in retry
-- Called by: (*Broker).Enqueue; every method that found a queue unserved
select q.id, case when q.leaving then 0 else q.layout end, q.policy, q.bounded, q.keyed,
       coalesce((select t.pending + t.scheduled + t.waiting from jobs.count_total t where t.queue = q.id), 0)
         + coalesce((select sum(d.pending + d.scheduled + coalesce(d.waiting, 0))
             from jobs.count_delta d where d.n > @floor and d.queue = q.id), 0)::bigint,
       coalesce((select t.bytes from jobs.count_total t where t.queue = q.id), 0)
         + coalesce((select sum(d.bytes) from jobs.count_delta d where d.n > @floor and d.queue = q.id), 0)::bigint
from jobs.queue q where q.name = @queue
