-- clock.sql: read the time by which a call is judged.
-- Params: @now µs|null
-- Returns: one row: now
-- Called by: methods that look
select coalesce(@now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
