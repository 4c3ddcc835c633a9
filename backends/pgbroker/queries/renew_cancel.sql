-- renew_cancel.sql: list jobs of a worker that were asked to cancel.
-- Params: @worker, @queues
-- Returns: one row per job: queue, ID, epoch
-- Called by: (*Broker).Renew
with asked as materialized (
  select worker, id, coalesce(epoch, 0) as epoch from jobs.job where cancel
)
select q.name, a.id, a.epoch
from asked a
cross join lateral (select queue from jobs.worker where num = a.worker and id = @worker limit 1) w
cross join lateral (select name from jobs.queue where id = w.queue limit 1) q
where q.name = any (@queues::text[])
order by q.name, a.id
