-- clock.sql: read the time of a call: that of the request, or else of the store.
-- Params: @now µs|null
-- Returns: one row: now
-- Called by: methods that read
select {{now}}
