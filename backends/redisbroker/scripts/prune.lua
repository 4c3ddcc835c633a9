-- prune: remove what retention no longer keeps, and what else has lapsed.
--
-- KEYS   m n h x u i ids d f g l b*
-- ARGV   now; 1; buckets; most records examined
-- Reply  {0, now, completed, cancelled, dead, others removed, 1 when more is left}
-- @include clock
-- @include open
-- @include big
-- @include read
-- @include forget
-- @include head

local BYTES = 8388608

local q, m = open('span', 'count', 'deadage', 'deadcount', 'big')
if q.refused then return q.refused end
q.span = duplicate_span(m[3])
local most = tonumber(ARGV[first])
local budget = math.max(1, math.min(most, math.floor(BYTES / biggest(m[7]))))
local removed, records = {[COMPLETED] = 0, [CANCELLED] = 0, [DEAD] = 0, other = 0}, {}

local function drop(set, state, id)
  redis.call('ZREM', set, id)
  redis.call('ZREM', q.l, 'r' .. id)
  records[#records + 1] = id
  removed[state] = removed[state] + 1
end

-- lapsed handles an entry of l: a kind, and a name.
local function lapsed(entry)
  local kind, name = string.sub(entry, 1, 1), string.sub(entry, 2)
  if kind == 'r' then
    if redis.call('ZSCORE', q.f, name) then
      drop(q.f, COMPLETED, name)
    elseif redis.call('ZSCORE', q.g, name) then
      drop(q.g, CANCELLED, name)
    end
  elseif kind == 'i' then
    redis.call('HDEL', q.ids, name)
    removed.other = removed.other + 1
  elseif kind == 'u' then
    local held = redis.call('HGET', q.u, name)
    if held and string.sub(held, 1, 1) == '2' and tonumber(string.match(held, '^%d(%d+):')) <= now then
      redis.call('HDEL', q.u, name)
      removed.other = removed.other + 1
    end
  elseif redis.call('HEXISTS', q.n, name) == 1 then
    redis.call('ZADD', q.l, int(up + 86400000000), entry) -- its jobs wait for a reclaim: look again
  else
    redis.call('HDEL', q.x, name)
    removed.other = removed.other + 1
  end
end

local entries = redis.call('ZRANGEBYSCORE', q.l, '-inf', int(now), 'LIMIT', 0, budget)
if #entries > 0 then redis.call('ZREM', q.l, unpack(entries)) end
for _, entry in ipairs(entries) do lapsed(entry) end
budget = budget - #entries

-- over is how many of the earliest jobs of a count are too many.
local function over(count, cap) return cap > 0 and math.min(budget, count - cap) or 0 end

local cap = tonumber(m[4] or 0)
local completed, cancelled = redis.call('ZCARD', q.f), redis.call('ZCARD', q.g)
local excess = over(completed + cancelled, cap)
if excess > 0 then
  local f = redis.call('ZRANGE', q.f, 0, excess - 1, 'WITHSCORES')
  local g = redis.call('ZRANGE', q.g, 0, excess - 1, 'WITHSCORES')
  local i, j = 1, 1
  for _ = 1, excess do
    if f[i] and (not g[j] or tonumber(f[i + 1]) <= tonumber(g[j + 1])) then
      drop(q.f, COMPLETED, f[i])
      i = i + 2
    else
      drop(q.g, CANCELLED, g[j])
      j = j + 2
    end
  end
  budget = budget - excess
end

local age = tonumber(m[5] or 0)
if age > 0 and budget > 0 then
  local old = redis.call('ZRANGEBYSCORE', q.d, '-inf', int(now - age), 'LIMIT', 0, budget)
  for _, id in ipairs(old) do drop(q.d, DEAD, id) end
  budget = budget - #old
end
excess = over(redis.call('ZCARD', q.d), tonumber(m[6] or 0))
if excess > 0 then
  for _, id in ipairs(redis.call('ZRANGE', q.d, 0, excess - 1)) do drop(q.d, DEAD, id) end
  budget = budget - excess
end

if #records > 0 then
  for i, body in ipairs(bodies(q, records)) do
    if body then forget(q, parse_index((index_of(body))), records[i]) end
  end
  remove(q, records)
end
return {0, now, removed[COMPLETED], removed[CANCELLED], removed[DEAD], removed.other, budget <= 0 and 1 or 0}
