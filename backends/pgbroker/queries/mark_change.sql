-- mark_change.sql: extend, change or drop a mark for the owner who holds it under this fence.
-- The row of a dropped mark stays until it is pruned, so that fences keep rising.
-- Params: $1 now µs|null, $2 name, $3 owner, $4 fence, $5 time to live µs, 0 to drop it, $6 value|null to keep it
-- Returns: the columns of a mark, no row when it is not held so
-- Called by: (*Broker).Mark
with clock as materialized (
  select coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
)
update jobs.mark m set until = clock.now + $5, value = coalesce($6, m.value)
from clock where m.name = $2 and m.owner = $3 and m.fence = $4 and m.until > clock.now
returning m.owner, m.fence, m.value, m.until
