-- @include rules
-- @include due

-- limited reports whether a limit of the queue holds back all its jobs and, if only time decides, until when.
local function limited(q)
  local r = q.rules
  if not r then return false end
  if r.max_active > 0 and active_jobs(q) >= r.max_active then return true end
  if r.rate == 0 then return false end
  local free, till = bucket_free(read_bucket(redis.call('HGET', q.record, 'bucket')), r.rate, r.rate_per, r.rate_burst)
  return free == 0, till
end

-- held_back reports whether a limit holds back all jobs, and whether waiting claims already know until when: the
-- record's field told has the time that they know.
local function held_back(q)
  local is, till = limited(q)
  return is and (not till or tonumber(redis.call('HGET', q.record, 'told')) == till)
end

-- wake leaves a token for a waiting claim, unless there is already a token, the queue is paused, or a limit
-- holds back its jobs.
local function wake(q)
  if q.paused or redis.call('LLEN', q.token) > 0 or q.rules and held_back(q) then return end
  redis.call('LPUSH', q.token, '1')
end
