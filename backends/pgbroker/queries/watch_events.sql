-- watch_events.sql: events after a number.
-- Params: $1 number, $2 limit
-- Returns: one row per event, in order: number, payload
-- Called by: (*Broker).Watch
select id, payload from jobs.event where id > $1 order by id limit $2
