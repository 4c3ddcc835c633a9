-- register_queue.sql: make queues known.
-- Params: $1 names
-- Returns: nothing
-- Called by: (*Broker).Enqueue, (*Broker).Renew, (*Broker).Policy
insert into jobs.queue (name) select unnest($1::text[]) on conflict (name) do nothing
