-- retire_meet.sql: register a worker in queues where it is unknown: its registration may be under way.
-- Params: @now µs|null, @worker, @queues
-- Returns: nothing
-- Called by: (*Broker).Retire, in one transaction before retire_end.sql
insert into jobs.worker (queue, id, ended_at, info)
select q.id, @worker, n.now, ''
from jobs.queue q, (select {{now}} as now) n
where q.name = any (@queues::text[]) and q.layout <= 1 and not q.leaving order by q.id
on conflict (id, queue) do nothing
