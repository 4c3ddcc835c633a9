-- examine_count.sql: record a change of counts.
-- Params: @queue number of the queue, @pending, @scheduled, @active, @retry, @completed, @dead, @cancelled, @waiting, @bytes
-- Returns: nothing
-- Called by: (*Broker).Examine
insert into jobs.count_delta (queue, pending, scheduled, active, retry, completed, dead, cancelled, waiting, bytes)
select @queue, @pending, @scheduled, @active, @retry, @completed, @dead, @cancelled, @waiting, @bytes
  where pg_current_xact_id() is not null -- the transaction gets its ID before the delta its number: the floor of the deltas needs that
