-- examine_layouts.sql: the layouts of queues.
-- Params: $1 name of a queue|null for all
-- Returns: one row per queue: name, layout
-- Called by: (*Broker).Examine
select name, layout from jobs.queue where $1::text is null or name = $1 order by name
