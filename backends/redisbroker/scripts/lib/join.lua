-- join registers a worker in a queue that does not know it.
local function join(q, worker)
  redis.call('HSET', q.lease_counts, worker, 0)
  redis.call('HSET', q.workers, worker, '0:')
  redis.call('HINCRBY', q.group_counts, worker, 1)
end
