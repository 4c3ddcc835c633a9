-- retire_held.sql: list leases of a worker in the order of its claims.
-- Params: $1 worker, $2 queues, $3 limit
-- Returns: one row per lease: queue, ID, epoch, deliveries, failures, crashes, snoozes, tail
-- Called by: (*Broker).Retire, in one transaction after retire_end.sql, whose locks it needs
select q.name, j.id, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail
from jobs.queue q
join jobs.worker w on w.queue = q.id and w.id = $1 and w.ended_at is not null
join jobs.job j on j.worker = w.num
where q.name = any ($2::text[]) and q.layout <= 1
order by q.id, j.lane, j.seq limit $3
