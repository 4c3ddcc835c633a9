-- renew.sql: extend all leases of a worker in queues where it is alive. The worker follows a new pulse there from now on.
-- Params: @now µs|null, @worker, @queues, @lease µs, @info broker.AppendWorkerInfo|null
-- Returns: one row: now, number of the pulse|null when another renewal of the worker is under way, in how many queues it is alive
-- Called by: (*Broker).Renew, in one transaction after renew_apart.sql
with {{clock}}, here as materialized (
  select num from jobs.worker
  where queue = any (array(select id from jobs.queue where name = any (@queues::text[]) and layout <= 1)) and id = @worker
    and ended_at is null
), pulse as (
  insert into jobs.pulse (worker, until) select @worker, now + @lease from clock where exists (select from here)
  on conflict (worker) where intact do nothing returning num
), followed as (
  update jobs.worker set pulse = (select num from pulse), info = coalesce(@info::bytea, info)
  where num = any (array(select num from here)) and ended_at is null and exists (select from pulse)
  returning 1
)
select (select now from clock), case when exists (select from here) then (select num from pulse) else 0 end,
  (select count(*) from followed)
