-- @include index
-- @include remove
-- @include ended

-- duplicate_span returns for how long an ID that a caller chose is refused after its record is gone, in µs: an
-- hour, unless the queue's policy sets it.
local function duplicate_span(stored)
  local span = tonumber(stored or 0)
  return span > 0 and span or 3600000000
end

-- forget prepares the removal of a record. It remembers an ID that a caller chose for the queue's duplicate
-- span, and notes the index entries by key that write_keys must remove. If the job was moved to another store,
-- its last epoch is written so far after the decimal point that the time, read as a number, does not change.
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
