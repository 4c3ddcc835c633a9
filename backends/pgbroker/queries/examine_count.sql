-- examine_count.sql: record a change of counts.
-- Params: @queue number of the queue, @pending, @scheduled, @active, @retry, @completed, @dead, @cancelled, @bytes
-- Returns: nothing
-- Called by: (*Broker).Examine
insert into jobs.count_delta (queue, pending, scheduled, active, retry, completed, dead, cancelled, bytes)
select @queue, @pending, @scheduled, @active, @retry, @completed, @dead, @cancelled, @bytes
  where pg_current_xact_id() is not null -- before the delta gets its number: its floor relies on that
