-- examine_recover.sql: restore the missing row of a queue, under a name that begins with "recovered-".
-- Params: @queue number of the queue
-- Returns: nothing
-- Called by: (*Broker).Examine
insert into jobs.queue (id, name) overriding system value values (@queue, 'recovered-' || @queue::int) on conflict do nothing
