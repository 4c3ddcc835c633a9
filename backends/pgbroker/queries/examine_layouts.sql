-- examine_layouts.sql: read the layouts of queues.
-- Params: @queue name of a queue|null for all
-- Returns: one row per queue: name, layout
-- Called by: (*Broker).Examine
select name, layout from jobs.queue where @queue::text is null or name = @queue order by name
