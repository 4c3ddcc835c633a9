-- clock.sql: one row with the time of the request, or else of the store, in µs.
-- Params: @now µs|null
clock as materialized (select {{now}} as now)
