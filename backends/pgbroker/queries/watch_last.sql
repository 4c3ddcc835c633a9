-- watch_last.sql: read the number of the last event.
-- Params: none
-- Returns: one row: its number, 0 when there is none
-- Called by: (*Broker).Watch
select coalesce(max(id), 0) from jobs.event
