-- The queues of a group share what is known of their workers: group_ends has the time until which a
-- worker's leases hold, group_counts in how many queues it is registered, and group_news the workers
-- whose next renewal has to ask each queue, since a job is to be cancelled or a queue has ended the
-- worker.

-- next_lapse returns when the next leases run out, without those that ran out by the time searched, for
-- which a Reclaim has already searched; -1 if there are none.
local function next_lapse(q, searched)
  if tonumber(searched) > now then searched = '0' end -- the clock was set back
  local next_one = redis.call('ZRANGE', q.group_ends, '(' .. searched, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
  return tonumber(next_one[2] or -1)
end
