-- @include rules

-- digest returns the rules of a queue in the form of the record's field flow, or false if it has none.
local function digest(q)
  local values, some = redis.call('HMGET', q.record, unpack(LIMITS)), redis.call('EXISTS', q.key_policies) == 1
  local own = some and '1' or '0'
  for i = 1, #LIMITS do
    values[i] = values[i] or '0'
    some = some or values[i] ~= '0'
  end
  return some and table.concat(values, ',') .. ',' .. own
end

local function write_digest(q, flow)
  if flow then redis.call('HSET', q.record, 'flow', flow) else redis.call('HDEL', q.record, 'flow') end
end
