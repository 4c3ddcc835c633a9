-- renew.sql: extend all leases of a worker in queues where it is alive.
-- Params: @now µs|null, @worker, @queues, @lease µs, @info broker.AppendWorkerInfo|null
-- Returns: one row per queue where it is alive: now
-- Called by: (*Broker).Renew
with clock as materialized (
  select coalesce(@now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
)
update jobs.worker set until = (select now from clock) + @lease, info = coalesce(@info::bytea, info)
where queue = any (array(select id from jobs.queue where name = any (@queues::text[]) and layout <= 1)) and id = @worker
  and ended_at is null
returning (select now from clock)
