-- clock.sql: the time by which a call is judged.
-- Params: $1 now µs|null
-- Returns: one row: now
-- Called by: methods that look
select coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
