-- @include holder

local DAY = 86400000000

-- end_worker records for a day that a worker has ended, so that its ID is not used again.
local function end_worker(q, worker)
  redis.call('HSET', q.ended_workers, worker, int(up))
  redis.call('ZADD', q.lapses, int(up + DAY), 'w' .. worker)
end
