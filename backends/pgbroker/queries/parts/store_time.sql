-- store_time.sql: the store's own time, in µs; the same in the whole statement.
-- Params: none
(extract(epoch from statement_timestamp()) * 1000000)::bigint
