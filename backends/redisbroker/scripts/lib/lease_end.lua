-- lease_end returns until when the leases of a worker hold: the time in the group, if there is one, otherwise
-- the time in the queue, which is updated less often.
local function lease_end(q, worker)
  return tonumber(redis.call('ZSCORE', q.group_ends, worker) or redis.call('ZSCORE', q.lease_ends, worker) or nil)
end
