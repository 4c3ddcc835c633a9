-- @include holder

local DAY = 86400000000

-- end_worker stores that a worker's ID has ended, for a day.
local function end_worker(q, worker)
  redis.call('HSET', q.ended_workers, worker, int(up))
  redis.call('ZADD', q.lapses, int(up + DAY), 'w' .. worker)
end
