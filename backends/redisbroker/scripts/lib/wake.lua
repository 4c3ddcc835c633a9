-- @include rules
-- @include due

-- limited reports whether a limit of the queue keeps all its jobs back; the second
-- result is till when, where time alone does.
local function limited(q)
  local r = q.rules
  if not r then return false end
  if r.max_active > 0 and active_jobs(q) >= r.max_active then return true end
  if r.rate == 0 then return false end
  local free, till = bucket_free(read_bucket(redis.call('HGET', q.record, 'bucket')), r.rate, r.rate_per, r.rate_burst)
  return free == 0, till
end

-- kept_back reports whether that is so, and a claim that waits knows till when, which
-- the record's field told says.
local function kept_back(q)
  local is, till = limited(q)
  return is and (not till or tonumber(redis.call('HGET', q.record, 'told')) == till)
end

-- wake leaves one token for a claim that waits. Paused queues wake nobody, and those
-- at a limit neither.
local function wake(q)
  if q.paused or redis.call('LLEN', q.token) > 0 or q.rules and kept_back(q) then return end
  redis.call('LPUSH', q.token, '1')
end
