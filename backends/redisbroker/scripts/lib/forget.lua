-- @include unhold
-- @include remove

-- forget removes what leads to a record that is going, and remembers an ID
-- that its caller chose for the queue's duplicate span.
local function forget(q, f, id)
  if f[KEY] then redis.call('ZREM', q.i, f[KEY] .. '\0' .. id) end
  if f[GIVEN] then
    local till = int(up + q.span)
    redis.call('HSET', q.ids, id, till)
    redis.call('ZADD', q.l, till, 'i' .. id)
  end
end
