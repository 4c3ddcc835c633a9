-- The queues of a group share some facts about their workers. group_ends has the time until which a worker's
-- leases hold. group_counts has the number of queues in which the worker is registered. group_news has the
-- workers whose next renewal must ask each queue, since a job must be cancelled or a queue has ended the worker.

-- next_lapse returns when the next leases run out, or -1 if there are none. It ignores leases that ran out by
-- the time searched, since a Reclaim has already found these.
local function next_lapse(q, searched)
  if tonumber(searched) > now then searched = '0' end -- the clock was set back
  local next_one = redis.call('ZRANGE', q.group_ends, '(' .. searched, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
  return tonumber(next_one[2] or -1)
end
