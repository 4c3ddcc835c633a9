-- leave_group counts a queue that is done with a worker. The last one of the group removes what
-- the group has of the worker.
local function leave_group(q, worker)
  if redis.call('HINCRBY', q.group_counts, worker, -1) > 0 then return end
  redis.call('HDEL', q.group_counts, worker)
  redis.call('ZREM', q.group_ends, worker)
  redis.call('SREM', q.group_news, worker)
end
