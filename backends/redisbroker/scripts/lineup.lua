-- lineup: accept new jobs that need nothing but their place in the list of
-- normal priority: no options, and a plain queue, as its key p says: with one
-- bucket, no limit, and not paused. It does what enqueue does for them, at
-- less than a third of the cost, and looks for their IDs first: a call may come late, after its own repeat.
-- One that took a shortcut instead does not look: it may not come after this (shortcut.go).
--
-- KEYS   m p ids r2 t b*
-- ARGV   its time, if the request has one, or 0; 1 if bodies begin with bytes
--        that mean nothing and not with the time of creation; 1 if some IDs may
--        have been sent before; the size of the longest body; then per job its
--        ID and body
-- Reply  {0, the time or 0 where it was not asked for, then per job refused: its
--        number, 1, ''} as enqueue; {LIMITED} where the jobs are for enqueue
-- @include big
-- @include layout

local there = redis.call('EXISTS', q.p, q.p, q.t) -- 1 is a token alone; 2 is plain, without one; 3 is both
if there < 2 then
  -- @include why
  return {LIMITED}
end
if ARGV[3] == '1' then redis.call('SET', q.p, LAYOUT) end
local now = 0
local function clock()
  if now == 0 then
    local t = redis.call('TIME')
    now = t[1] * 1000000 + t[2]
  end
  return now
end
if ARGV[2] == '1' then
  -- @include stamp
  local created = stamp(clock())
  for i = 6, #ARGV, 2 do ARGV[i] = created .. string.sub(ARGV[i], 9) end
end

local ids, n, clash = {}, 0, false
for i = 5, #ARGV, 2 do
  n = n + 1
  ids[n] = ARGV[i]
end
local exists, remembered = redis.call('HMGET', q.b[1], unpack(ids)), {}
if redis.call('HLEN', q.ids) > 0 then remembered = redis.call('HMGET', q.ids, unpack(ids)) end
for i = 1, n do clash = clash or exists[i] or remembered[i] end

local reply = {0, now}
if clash or redis.call('HSET', q.b[1], unpack(ARGV, 5)) < n then
  -- One is not new, or stands twice: then the first of its name is taken.
  local at, seen, store, taken = ARGV[1] == '0' and clock() or math.floor(tonumber(ARGV[1])), {}, {}, {}
  for i = 1, n do
    local id, r = ids[i], #reply
    if seen[id] or exists[i] or (remembered[i] and tonumber(remembered[i]) > at) then
      reply[r + 1], reply[r + 2], reply[r + 3] = i, 1, ''
    else
      seen[id] = true
      taken[#taken + 1] = id
      store[#store + 1], store[#store + 2] = id, ARGV[4 + 2 * i]
    end
  end
  reply[2] = now
  if #taken == 0 then return reply end
  redis.call('HSET', q.b[1], unpack(store))
  ids = taken
end
redis.call('LPUSH', q.r2, unpack(ids))
local longest = tonumber(ARGV[4])
if longest > biggest() and longest > biggest(redis.call('HGET', q.m, 'big')) then redis.call('HSET', q.m, 'big', longest) end
if there == 2 then redis.call('LPUSH', q.t, '1') end -- a plain queue is not paused
return reply
