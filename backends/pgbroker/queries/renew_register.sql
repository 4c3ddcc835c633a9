-- renew_register.sql: register a worker in queues, or renew it where it is alive.
-- Params: $1 now µs|null, $2 worker, $3 queues, $4 lease µs, $5 broker.AppendWorkerInfo
-- Returns: one row per queue where it is alive: queue, now
-- Called by: (*Broker).Renew
with clock as materialized (
  select coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
), place as materialized (
  select distinct id, name from jobs.queue where name = any ($3::text[]) and layout <= 1 order by id
), alive as (
  insert into jobs.worker as w (queue, id, until, info)
  select place.id, $2, clock.now + $4, $5 from clock, place
  on conflict (queue, id) do update set until = excluded.until, info = excluded.info where w.ended_at is null
  returning queue
)
select place.name, clock.now from clock, alive join place on place.id = alive.queue
