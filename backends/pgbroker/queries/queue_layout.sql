-- queue_layout.sql: read the layouts of queues.
-- Params: @queues names
-- Returns: one row: the newest layout, 0 when none of the queues exists
-- Called by: methods that read, and (*Broker).Operate
select coalesce(max(layout), 0) from jobs.queue where name = any (@queues::text[])
