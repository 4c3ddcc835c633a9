-- meet_absorb.sql: remember the ID of a new job that replaced another one and is not stored.
-- Params: @now µs|null, @queue, @id, @replaced the other one
-- Returns: nothing
-- Called by: (*Broker).Enqueue, in one transaction after meet_look.sql
insert into jobs.remembered (queue, id, until, replaced)
select id, @id::text, {{now}} + {{duplicate_span}}, @replaced::text
from jobs.queue where name = @queue
on conflict (id, queue) do update set until = excluded.until, epoch = excluded.epoch, replaced = excluded.replaced
