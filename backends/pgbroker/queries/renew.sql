-- renew.sql: extend all leases of a worker in queues where it is alive.
-- Params: $1 now µs|null, $2 worker, $3 queues, $4 lease µs, $5 broker.AppendWorkerInfo|null
-- Returns: one row per queue where it is alive: now
-- Called by: (*Broker).Renew
with clock as materialized (
  select coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
)
update jobs.worker set until = (select now from clock) + $4, info = coalesce($5::bytea, info)
where queue = any (array(select id from jobs.queue where name = any ($3::text[]) and layout <= 1)) and id = $2 and ended_at is null
returning (select now from clock)
