-- due is the earliest time in a set of scheduled or retry jobs, or nil: the
-- last member of each is a guard with an endless score.
local function due(key)
  if redis.call('ZCOUNT', key, '-inf', '(+inf') == 0 then return nil end -- mostly, and half as dear as looking
  local e = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if e[1] and string.byte(e[1]) ~= 0 then return tonumber(e[2]) end
end

-- next_due is the earliest time in both, or nil.
local function next_due(q)
  local z, y = due(q.scheduled), due(q.retry)
  if z and y then return math.min(z, y) end
  return z or y
end
