-- retire_held.sql: list leases of a worker in the order of its claims.
-- Params: @worker, @queues, @limit
-- Returns: one row per lease: queue, ID, epoch, deliveries, failures, crashes, snoozes, tail
-- Called by: (*Broker).Retire, in one transaction after retire_end.sql, whose locks it needs
select q.name, j.id, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail
from unnest(@queues::text[]) as n(name)
cross join lateral (select id, name from jobs.queue where name = n.name and layout <= 1 limit 1) q
cross join lateral (select num from jobs.worker where queue = q.id and id = @worker and ended_at is not null limit 1) w
cross join lateral (select * from jobs.job where worker = w.num offset 0) j
order by q.id, j.lane, j.seq limit @limit
