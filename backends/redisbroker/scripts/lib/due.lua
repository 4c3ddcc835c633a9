-- @include rules
-- @include guard

-- due returns the earliest time in a set of scheduled or retry jobs, or nil. Both sets may have a guard.
local function due(key)
  if redis.call('ZCOUNT', key, '-inf', '(+inf') == 0 then return nil end -- the usual case, which this finds in half the time of a ZRANGE
  local e = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if not is_guard(e[1]) then return tonumber(e[2]) end
end

-- retries returns how many retry jobs may become pending now. If none may, it also returns when the next
-- one may.
local function retries(q)
  local r = q.rules
  if not r or r.retry_rate == 0 then return math.huge end
  q.retry_bucket = q.retry_bucket or read_bucket(redis.call('HGET', q.record, 'retry_bucket'))
  return bucket_free(q.retry_bucket, r.retry_rate, r.retry_rate_per, r.retry_rate_burst)
end

-- next_due returns the earliest due time of a scheduled or retry job, or nil. A retry is not due
-- before its rate allows it.
local function next_due(q)
  local z, y = due(q.scheduled), due(q.retry)
  if y and y <= now and q.rules then y = math.max(y, select(2, retries(q)) or y) end
  if z and y then return math.min(z, y) end
  return z or y
end
