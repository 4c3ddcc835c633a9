-- lease_end returns until when the leases of a worker hold: as the group of the queue has it, or else
-- the queue itself, which is told less often.
local function lease_end(q, worker)
  return tonumber(redis.call('ZSCORE', q.group_ends, worker) or redis.call('ZSCORE', q.lease_ends, worker) or nil)
end
