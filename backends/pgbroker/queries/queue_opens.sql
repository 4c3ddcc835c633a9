-- queue_opens.sql: read whether the end of a job may make room for other jobs.
-- Params: @queue
-- Returns: at most one row: whether
-- Called by: (*Broker).Operate
select opens > 0 from jobs.queue where name = @queue
