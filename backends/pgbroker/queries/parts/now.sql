-- now.sql: the time of the request, or else of the store, in µs.
-- Params: @now µs|null
coalesce(@now::bigint, {{store_time}})
