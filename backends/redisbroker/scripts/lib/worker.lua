-- @include holder

local DAY = 86400000000

-- bury remembers that a worker's ID is over.
local function bury(q, worker)
  redis.call('HSET', q.x, worker, int(up))
  redis.call('ZADD', q.l, int(up + DAY), 'w' .. worker)
end
