-- push: accept new jobs that need nothing but their place in the list of
-- normal priority: no options, and a plain queue, as its field p says: with one
-- bucket, no limit, and not paused. It does what enqueue does for them, at a
-- third of the cost.
--
-- KEYS   m ids r2 t b*
-- ARGV   now; 1; buckets; 2; then per job: id, body
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
if #ARGV == 6 and not remembers then
  local id, body = ARGV[5], ARGV[6]
  if redis.call('HSETNX', q.b[1], id, created .. body) == 0 then return {0, now, 1, 1, ''} end
  longest = #body
  redis.call('LPUSH', q.r2, id)
else
  local ids, n = {}, 0
  for at = 5, #ARGV, 2 do
    n = n + 1
    ids[n] = ARGV[at]
  end
  local exists = redis.call('HMGET', q.b[1], unpack(ids))
  local remembered = {}
  if remembers then remembered = redis.call('HMGET', q.ids, unpack(ids)) end
  local taken, store, s = {}, {}, 0
  for i = 1, n do
    local id = ids[i]
    if exists[i] or (remembered[i] and tonumber(remembered[i]) > now) then
      local r = #reply
      reply[r + 1], reply[r + 2], reply[r + 3] = i, 1, ''
    else
      local body = ARGV[4 + 2 * i]
      s = s + 1
      taken[s], store[2 * s - 1], store[2 * s] = id, id, created .. body
      if #body > longest then longest = #body end
    end
  end
  if s == 0 then return reply end
  if redis.call('HSET', q.b[1], unpack(store)) < s then -- an ID stood there twice: the first job has it
    local accepted, seen = taken, {}
    local at, k = 0, 0
    taken = {}
    for i = 1, n do
      local id = ids[i]
      if id == accepted[at + 1] then
        at = at + 1
        if seen[id] then
          local r = #reply
          reply[r + 1], reply[r + 2], reply[r + 3] = i, 1, ''
        else
          seen[id], k = true, k + 1
          taken[k] = id
          redis.call('HSET', q.b[1], id, store[2 * at])
        end
      end
    end
  end
  redis.call('LPUSH', q.r2, unpack(taken))
end
if longest > biggest() and longest > biggest(redis.call('HGET', q.m, 'big')) then redis.call('HSET', q.m, 'big', longest) end
if redis.call('LLEN', q.t) == 0 then redis.call('LPUSH', q.t, '1') end -- a plain queue is not paused
return reply
