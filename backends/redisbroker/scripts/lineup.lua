-- lineup: accept new jobs that need nothing but their place in the list of
-- normal priority: no options, and a plain queue, as its key p says: without a
-- limit, and not paused. It does what enqueue does for them, at less than a
-- third of the cost, and looks for their IDs first: a call may come late, after its own repeat.
-- One that took a shortcut instead does not look: it may not come after this (shortcut.go).
--
-- KEYS   m p ids r2 t b*   (of the buckets one for each run)
-- ARGV   its time, if the request has one, or 0; 1 if bodies begin with bytes
--        that mean nothing and not with the time of creation; 1 if some IDs may
--        have been sent before; the size of the longest body; then per run of
--        jobs of one bucket how many they are, and the ID and body of each
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
local created
if ARGV[2] == '1' then
  -- @include stamp
  created = stamp(clock())
end

-- A run is where its jobs stand in ARGV and in ids: from, till, first, last.
local ids, runs, n, at = {}, {}, 0, 5
while at < #ARGV do
  local from, before = at + 1, n
  at = from + 2 * tonumber(ARGV[at])
  for i = from, at - 1, 2 do
    n = n + 1
    ids[n] = ARGV[i]
    if created then ARGV[i + 1] = created .. string.sub(ARGV[i + 1], 9) end
  end
  runs[#runs + 1] = {from, at - 1, before + 1, n}
end
local exists, clash = {}, false
for b, run in ipairs(runs) do
  local some = redis.call('HMGET', q.b[b], unpack(ids, run[3], run[4]))
  for i = 1, #some do
    if some[i] then exists[run[3] + i - 1], clash = true, true end
  end
end
local remembered = {}
if redis.call('HLEN', q.ids) > 0 then
  remembered = redis.call('HMGET', q.ids, unpack(ids))
  for i = 1, n do clash = clash or remembered[i] end
end
if not clash then
  for b, run in ipairs(runs) do
    local new = redis.call('HSET', q.b[b], unpack(ARGV, run[1], run[2]))
    clash = clash or new <= run[4] - run[3]
  end
end

local reply = {0, now}
if clash then
  -- One is not new, or stands twice: then the first of its name is taken.
  local time, seen, taken = ARGV[1] == '0' and clock() or math.floor(tonumber(ARGV[1])), {}, {}
  for b, run in ipairs(runs) do
    for i = run[3], run[4] do
      local id, r = ids[i], #reply
      if seen[id] or exists[i] or (remembered[i] and tonumber(remembered[i]) > time) then
        reply[r + 1], reply[r + 2], reply[r + 3] = i, 1, ''
      else
        seen[id] = true
        taken[#taken + 1] = id
        redis.call('HSET', q.b[b], id, ARGV[run[1] + 2 * (i - run[3]) + 1])
      end
    end
  end
  reply[2] = now
  if #taken == 0 then return reply end
  ids = taken
end
redis.call('LPUSH', q.r2, unpack(ids))
local longest = tonumber(ARGV[4])
if longest > biggest() and longest > biggest(redis.call('HGET', q.m, 'big')) then redis.call('HSET', q.m, 'big', longest) end
if there == 2 then redis.call('LPUSH', q.t, '1') end -- a plain queue is not paused
return reply
