-- The queues of a group share the times until which leases of workers hold: group_ends has them
-- for each worker, group_counts in how many queues it is registered, and group_news those whose
-- next renewal has to ask each queue: a job is to be cancelled, or a queue has ended the worker.

-- next_lapse returns when the next leases run out, but for those that a Reclaim searched for.
local function next_lapse(q, searched)
  if tonumber(searched) > now then searched = '0' end -- the clock was set back
  local next_one = redis.call('ZRANGE', q.group_ends, '(' .. searched, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
  return tonumber(next_one[2] or -1)
end
