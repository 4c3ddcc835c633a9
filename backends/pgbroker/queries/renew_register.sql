-- renew_register.sql: register a worker in queues, or renew it where it is alive. It follows a new pulse there from now on.
-- Params: @now µs|null, @worker, @queues, @lease µs, @info broker.AppendWorkerInfo
-- Returns: one row: now, number of the pulse|null when another renewal of the worker is under way, in how many queues it is alive
-- Called by: (*Broker).Renew, in one transaction after renew_apart.sql
with {{clock}}, pulse as (
  insert into jobs.pulse (worker, until) select @worker, now + @lease from clock
  on conflict (worker) where intact do nothing returning num
), followed as (
  insert into jobs.worker as w (queue, id, pulse, info)
  select q.id, @worker, pulse.num, @info
  from pulse cross join unnest(@queues::text[]) as n(name)
  cross join lateral (select id from jobs.queue where name = n.name and layout <= 1 and not leaving limit 1) q
  order by q.id
  on conflict (id, queue) do update set pulse = excluded.pulse, info = excluded.info where w.ended_at is null
  returning 1
)
select (select now from clock), (select num from pulse), (select count(*) from followed)
