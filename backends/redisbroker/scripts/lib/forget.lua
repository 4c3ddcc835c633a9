-- @include index
-- @include remove
-- @include ended

-- duplicate_span returns for how long an ID chosen by a caller outlives its record, in µs: an hour
-- unless the queue's policy sets it.
local function duplicate_span(stored)
  local span = tonumber(stored or 0)
  return span > 0 and span or 3600000000
end

-- forget prepares the removal of a record: it remembers an ID chosen by a caller for the queue's
-- duplicate span, and records index entries by key for write_keys to remove. The epoch at which a job
-- left for another store is written so far behind the decimal point that the time, as a number, is the
-- same.
local function forget(q, f, id, left)
  if f[KEY] then
    unlist(q, f[KEY], id)
    drop_head(q, f[KEY], id)
  end
  if f[GIVEN] then
    local till = int(up + q.span)
    redis.call('HSET', q.remembered, id, left and till .. '.00000000000000000000' .. int(left) or till)
    redis.call('ZADD', q.lapses, till, 'i' .. id)
  end
end
