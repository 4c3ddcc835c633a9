-- queue_opens.sql: say whether the end of a job may make room for others.
-- Params: @queue
-- Returns: at most one row: whether
-- Called by: (*Broker).Operate
select opens > 0 from jobs.queue where name = @queue
