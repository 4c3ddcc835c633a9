-- lineup: accept new jobs that need nothing but their place in the list of
-- normal priority: no options, and a plain queue, as its field p says: with one
-- bucket, no limit, and not paused. It does what enqueue does for them, at a
-- third of the cost, and looks for their IDs first: a call may come late, after its own repeat.
--
-- KEYS   m ids r2 t b*
-- ARGV   now; 1; buckets; how many jobs; their IDs; their bodies
-- Reply  {0, now, then per job refused: its number, 1, ''} as enqueue; a
--        refusal; {LIMITED} where the jobs are for enqueue
-- @include clock
-- @include big
-- @include layout

if tonumber(redis.call('HGET', q.m, 'p')) ~= LAYOUT then
  -- @include open
  local q = open()
  return q.refused or {LIMITED}
end

-- The time of creation, in eight bytes.
local floor = math.floor
local high, low = floor(up / 4294967296), up % 4294967296
local created = string.char(0, floor(high / 65536), floor(high / 256) % 256, high % 256,
  floor(low / 16777216), floor(low / 65536) % 256, floor(low / 256) % 256, low % 256)

local remembers = redis.call('HLEN', q.ids) > 0
local reply, longest = {0, now}, 0
local n = tonumber(ARGV[4])
if n == 1 and not remembers then
  local id, body = ARGV[5], ARGV[6]
  if redis.call('HSETNX', q.b[1], id, created .. body) == 0 then return {0, now, 1, 1, ''} end
  longest = #body
  redis.call('LPUSH', q.r2, id)
else
  local ids, remembered = {unpack(ARGV, 5, 4 + n)}, {}
  local exists = redis.call('HMGET', q.b[1], unpack(ids))
  if remembers then remembered = redis.call('HMGET', q.ids, unpack(ids)) end

  -- taken are the jobs that are not refused for their IDs; where one stands
  -- twice and seen is given, the first.
  local store, taken, s
  local function sort_out(seen)
    store, taken, s = {}, ids, 0
    for i = 1, n do
      local id = ids[i]
      if exists[i] or (remembered[i] and tonumber(remembered[i]) > now) or (seen and seen[id]) then
        if taken == ids then taken = {unpack(ids, 1, s)} end
        local r = #reply
        reply[r + 1], reply[r + 2], reply[r + 3] = i, 1, ''
      else
        local body = ARGV[4 + n + i]
        s = s + 1
        store[2 * s - 1], store[2 * s] = id, created .. body
        if taken ~= ids then taken[s] = id end
        if seen then seen[id] = true end
        if #body > longest then longest = #body end
      end
    end
  end
  sort_out()
  if s == 0 then return reply end
  if redis.call('HSET', q.b[1], unpack(store)) < s then -- an ID stood twice
    reply = {0, now}
    sort_out({})
    redis.call('HSET', q.b[1], unpack(store))
  end
  redis.call('LPUSH', q.r2, unpack(taken))
end
if longest > biggest() and longest > biggest(redis.call('HGET', q.m, 'big')) then redis.call('HSET', q.m, 'big', longest) end
if redis.call('LLEN', q.t) == 0 then redis.call('LPUSH', q.t, '1') end -- a plain queue is not paused
return reply
