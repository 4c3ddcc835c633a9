-- renew.sql: extend all leases of a worker in queues where it is alive.
-- Params: $1 now µs|null, $2 worker, $3 queues, $4 lease µs
-- Returns: one row per queue where it is alive: queue, now
-- Called by: (*Broker).Renew
with clock as materialized (
  select coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
)
update jobs.worker w set until = clock.now + $4
from clock, jobs.queue q
where q.name = any ($3::text[]) and q.layout <= 1 and w.queue = q.id and w.id = $2 and w.ended_at is null
returning q.name, clock.now
