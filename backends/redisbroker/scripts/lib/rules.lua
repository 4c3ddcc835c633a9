-- @include bucket

-- What the policy says of limits, keys and order. The field flow of the record has
-- the numbers of these rules, as policy.lua writes it while one of them is set or a key
-- has a policy of its own: other queues pay for one field.
local LIMITS = {'max_active', 'rate', 'rate_per', 'rate_burst', 'max_bytes', 'key_max_depth', 'key_max_active',
  'key_rate', 'key_rate_per', 'key_rate_burst', 'retry_rate', 'retry_rate_per', 'retry_rate_burst', 'ordered'}
local STOP, SKIP = 1, 2 -- values of ordered

-- numbers gives names to the numbers of a text.
local function numbers(text, names)
  local of, i = {}, 0
  for n in string.gmatch(text, '%d+') do
    i = i + 1
    if names[i] then of[names[i]] = tonumber(n) end
  end
  return of
end

-- read_limits notes the rules of a queue, if it has any. Behind those of LIMITS stands
-- 1 when keys have policies of their own.
local function read_limits(q, flow)
  if not flow then return end
  local r = numbers(flow, LIMITS)
  r.own = string.sub(flow, -2) == ',1'
  r.of_keys = r.own or r.key_max_active > 0 or r.key_rate > 0 or r.ordered > 0
  q.rules = r
end

-- active_jobs counts the leases that are somebody's.
local function active_jobs(q) return redis.call('HLEN', q.leases) - 1 - redis.call('HLEN', q.held) end

-- plain reports whether enqueue_plain.lua is for a queue of such a maximum depth: it
-- asks for no limit, and leaves a wake token each time.
local function plain(q, depth)
  local r = q.rules
  return not q.paused and depth == 0 and not (r and (r.max_active > 0 or r.rate > 0 or r.max_bytes > 0 or r.ordered > 0))
end
