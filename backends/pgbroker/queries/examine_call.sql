-- examine_call.sql: make claims look at the key of a job.
-- Params: @id, @queue number of its queue
-- Returns: nothing
-- Called by: (*Broker).Examine
insert into jobs.call (queue, key) select queue, key from jobs.job where id = @id and queue = @queue and key is not null
  and pg_current_xact_id() is not null -- the transaction must get its ID before the row gets its number: the floor of the calls needs that
