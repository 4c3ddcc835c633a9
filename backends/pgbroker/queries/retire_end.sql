-- retire_end.sql: end a worker's ID in queues.
-- The lock is stronger than the update needs, so that it waits for claims of the worker that are under way.
-- Params: @now µs|null, @worker, @queues
-- Returns: nothing
-- Called by: (*Broker).Retire, in one transaction between retire_meet.sql and retire_held.sql
with {{clock}}, known as materialized (
  select num from jobs.worker
  where queue = any (array(select id from jobs.queue where name = any (@queues::text[]) and layout <= 1)) and id = @worker
  order by queue for update
), forgotten as (
  delete from jobs.settled where worker = any (array(select num from known))
)
update jobs.worker set ended_at = coalesce(ended_at, (select now from clock)), drained = false
where num = any (array(select num from known))
