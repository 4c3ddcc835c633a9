-- examine_recover.sql: restore the row of a queue that has lost it, under a name that says so.
-- Params: @queue number of the queue
-- Returns: nothing
-- Called by: (*Broker).Examine
insert into jobs.queue (id, name) overriding system value values (@queue, 'recovered-' || @queue::int) on conflict do nothing
