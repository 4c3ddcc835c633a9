-- register_queue.sql: register queues, and stop the removal of queues that are being removed.
-- Params: @queues names, sorted
-- Returns: nothing
-- Called by: (*Broker).Enqueue, (*Broker).Renew, (*Broker).Policy
insert into jobs.queue as q (name)
select n.name from unnest(@queues::text[]) as n(name)
where not exists (select from jobs.queue k where k.name = n.name and not k.leaving) -- a conflict would lock its row
on conflict (name) do update set leaving = false where q.leaving
