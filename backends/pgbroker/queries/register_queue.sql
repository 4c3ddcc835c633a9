-- register_queue.sql: register queues, and keep those that are being removed.
-- Params: @queues names, sorted
-- Returns: nothing
-- Called by: (*Broker).Enqueue, (*Broker).Renew, (*Broker).Policy
insert into jobs.queue as q (name) select unnest(@queues::text[]) on conflict (name) do update set leaving = false where q.leaving
