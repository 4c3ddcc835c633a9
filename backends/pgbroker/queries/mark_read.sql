-- mark_read.sql: read a mark.
-- Params: $1 now µs|null, $2 name
-- Returns: the columns of a mark, no row when nobody holds it
-- Called by: (*Broker).Mark
select owner, fence, value, until from jobs.mark
where name = $2 and until > coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
