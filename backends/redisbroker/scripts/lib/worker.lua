-- @include holder

local DAY = 86400000000

-- bury remembers that a worker's ID is over.
local function bury(q, worker)
  redis.call('HSET', q.ended_workers, worker, int(up))
  redis.call('ZADD', q.lapses, int(up + DAY), 'w' .. worker)
end
