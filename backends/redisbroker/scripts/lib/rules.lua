-- @include bucket

-- The rules of a policy about limits, keys and order. The record's field flow, which policy.lua writes, has
-- their values while one of them is set or a key has its own policy. Other queues do not have the field, so
-- scripts read only this one field for them.
local LIMITS = {'max_active', 'rate', 'rate_per', 'rate_burst', 'max_bytes', 'key_max_depth', 'key_max_active',
  'key_rate', 'key_rate_per', 'key_rate_burst', 'retry_rate', 'retry_rate_per', 'retry_rate_burst', 'ordered'}
local STOP, SKIP = 1, 2 -- values of ordered

-- numbers returns the numbers in a text by their names; names has these in the same order.
local function numbers(text, names)
  local of, i = {}, 0
  for n in string.gmatch(text, '%d+') do
    i = i + 1
    if names[i] then of[names[i]] = tonumber(n) end
  end
  return of
end

-- read_limits stores the rules of a queue in q.rules, if it has any. After the values of LIMITS, flow has 1 if
-- keys have their own policies.
local function read_limits(q, flow)
  if not flow then return end
  local r = numbers(flow, LIMITS)
  r.own = string.sub(flow, -2) == ',1'
  r.of_keys = r.own or r.key_max_active > 0 or r.key_rate > 0 or r.ordered > 0
  r.rate_of_keys = {r.key_rate, r.key_rate_per, r.key_rate_burst}
  q.rules = r
end

-- active_jobs counts the leases that have a worker: all leases except those of held jobs.
local function active_jobs(q) return redis.call('HLEN', q.leases) - 1 - redis.call('HLEN', q.held) end

-- plain reports whether enqueue_plain.lua may store jobs in a queue with this depth limit. That script checks
-- no limit, and always leaves a wake token.
local function plain(q, depth)
  local r = q.rules
  return not q.paused and depth == 0 and not (r and (r.max_active > 0 or r.rate > 0 or r.max_bytes > 0 or r.ordered > 0))
end
