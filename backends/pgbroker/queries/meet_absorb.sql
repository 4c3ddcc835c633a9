-- meet_absorb.sql: remember the ID of a new job that replaced another one and is not stored.
-- Params: @now µs|null, @queue, @id, @replaced the other one
-- Returns: nothing
-- Called by: (*Broker).Enqueue, in one transaction after meet_look.sql
insert into jobs.remembered (queue, id, until, replaced)
select q.id, @id::text, {{now}}
         + coalesce(nullif(q.duplicate_span, 0), 3600000000), @replaced::text
from jobs.queue q where q.name = @queue
on conflict (id, queue) do update set until = excluded.until, epoch = excluded.epoch, replaced = excluded.replaced
