-- leave_group counts a queue in which a worker is no longer registered. For the last one, it removes
-- what the group has of the worker.
local function leave_group(q, worker)
  if redis.call('HINCRBY', q.group_counts, worker, -1) > 0 then return end
  redis.call('HDEL', q.group_counts, worker)
  redis.call('ZREM', q.group_ends, worker)
  redis.call('SREM', q.group_news, worker)
end
