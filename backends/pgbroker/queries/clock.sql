-- clock.sql: read the time of a call: that of the request, or else of the store.
-- Params: @now µs|null
-- Returns: one row: now
-- Called by: methods that read
select coalesce(@now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
