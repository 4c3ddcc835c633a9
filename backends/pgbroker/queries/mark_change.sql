-- mark_change.sql: extend, change or drop a mark for the owner that holds it with this fence.
-- The row of a dropped mark stays until it is pruned, so that fences keep rising.
-- Params: @now µs|null, @name, @owner, @fence, @ttl time to live µs, 0 to drop it, @value|null to keep it
-- Returns: the columns of a mark, no row when this owner does not hold it with this fence
-- Called by: (*Broker).Mark
with {{clock}}
update jobs.mark m set until = clock.now + @ttl, value = coalesce(@value, m.value)
from clock where m.name = @name and m.owner = @owner and m.fence = @fence and m.until > clock.now
returning m.owner, m.fence, m.value, m.until
