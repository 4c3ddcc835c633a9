-- @include index
-- @include remove
-- @include ended

-- duplicate_span is for how long a caller's own ID outlives its record, in µs:
-- an hour unless the queue's policy says otherwise.
local function duplicate_span(stored)
  local span = tonumber(stored or 0)
  return span > 0 and span or 3600000000
end

-- forget removes what leads to a record that is going, and remembers an ID
-- that its caller chose for the queue's duplicate span. The epoch at which a job
-- left for elsewhere stands so far behind the point that the number is the same.
-- What leads there by key goes with write_keys.
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
