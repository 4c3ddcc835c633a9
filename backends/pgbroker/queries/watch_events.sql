-- watch_events.sql: read the events after a number.
-- Params: @number, @limit
-- Returns: one row per event, in order: number, payload
-- Called by: (*Broker).Watch
select id, payload from jobs.event where id > @number order by id limit @limit
