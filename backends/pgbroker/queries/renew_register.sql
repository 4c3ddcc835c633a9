-- renew_register.sql: register a worker in queues, or renew it where it is alive.
-- Params: @now µs|null, @worker, @queues, @lease µs, @info broker.AppendWorkerInfo
-- Returns: one row per queue where it is alive: now
-- Called by: (*Broker).Renew
with clock as materialized (
  select coalesce(@now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
)
insert into jobs.worker as w (queue, id, until, info)
select q.id, @worker, clock.now + @lease, @info from clock, jobs.queue q where q.name = any (@queues::text[]) and q.layout <= 1
  and not q.leaving order by q.id
on conflict (id, queue) do update set until = excluded.until, info = excluded.info where w.ended_at is null
returning (select now from clock)
