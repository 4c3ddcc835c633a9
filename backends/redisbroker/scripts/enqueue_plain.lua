-- enqueue_plain: accept new jobs without options, which are due at once with normal priority. The key
-- plain says that the queue has no limit and is not paused. The script does the same as enqueue, in two
-- thirds of the server's time for a batch of 100, and in half of it for a single job. With enqueue, one
-- caller enqueues 0.7 times as many jobs per second as asynq's; with this script, 0.9 times as many.
--
-- KEYS   record plain remembered normal token bodies*   (of the buckets one for each run)
-- ARGV   time stamp longest all runs*
--        (time: 0 for the store's clock; stamp: 1 if bodies begin with eight bytes that mean
--        nothing and not with the time of creation; longest: the size of the longest body, and all:
--        the size of all of them, as they are stored; per run of jobs of one bucket: how many they are, and the ID and body of each.
--        Instead, for one job of at most 4 KiB by the store's clock, with its time: its ID and body alone)
-- Reply  {0, the time or 0 where it was not read, then per job refused: its
--        number, 1, ''} as enqueue, or 0 alone for {0, 0}; {LIMITED} where the
--        jobs are for enqueue
-- The count says which of the keys exist: plain adds 4, the token 2, remembered IDs 1.
local there = redis.call('EXISTS', q.plain, q.plain, q.plain, q.plain, q.token, q.token, q.remembered)
if there < 4 then
  -- @include why
  return {LIMITED}
end
-- @include sums
local now = 0
local function clock()
  if now == 0 then
    local t = redis.call('TIME')
    now = t[1] * 1000000 + t[2]
  end
  return now
end

-- A single job. The code below would do the same, but takes a third more of the server's time.
if #ARGV == 2 then
  local id, body = ARGV[1], ARGV[2]
  local remembered = there % 2 == 1 and redis.call('HGET', q.remembered, id)
  if remembered and tonumber(string.match(remembered, '^%d+')) > clock() or
    redis.call('HSETNX', q.bodies[1], id, body) == 0 then return {0, now, 1, 1, ''} end
  redis.call('LPUSH', q.normal, id)
  count_plain(1, #body)
  if there % 4 < 2 then redis.call('LPUSH', q.token, '1') end -- a plain queue is not paused
  return 0
end

-- @include big
-- @include stamp
local stamped = args.stamp == '1' and stamp(clock())

-- A run is the range of its jobs in ARGV, from .. till, and in ids, start .. stop.
local ids, runs, n, at = {}, {}, 0, first.runs
while at < #ARGV do
  local from, before = at + 1, n
  at = from + 2 * ARGV[at]
  for i = from, at - 1, 2 do
    n = n + 1
    ids[n] = ARGV[i]
    if stamped then ARGV[i + 1] = stamped .. string.sub(ARGV[i + 1], 9) end
  end
  runs[#runs + 1] = {from = from, till = at - 1, start = before + 1, stop = n}
end
local remembered, exists, clash = {}, {}, false
if there % 2 == 1 then
  remembered = redis.call('HMGET', q.remembered, unpack(ids))
  for i = 1, n do clash = clash or remembered[i] end
end
for b, run in ipairs(runs) do
  local some = redis.call('HMGET', q.bodies[b], unpack(ids, run.start, run.stop))
  for i = 1, #some do
    if some[i] then exists[run.start + i - 1], clash = true, true end
  end
end
if not clash then
  for b, run in ipairs(runs) do
    local new = redis.call('HSET', q.bodies[b], unpack(ARGV, run.from, run.till))
    clash = clash or new <= run.stop - run.start
  end
end

local reply, bytes = 0, args.all
if clash then
  -- An ID exists, or is in the call twice: then only the first such job is accepted.
  local time, seen, taken = args.time == '0' and clock() or tonumber(string.match(args.time, '^%-?%d+')), {}, {}
  reply, bytes = {0, now}, 0
  for b, run in ipairs(runs) do
    for i = run.start, run.stop do
      local id, r, at = ids[i], #reply, run.from + 2 * (i - run.start)
      if seen[id] or exists[i] or (remembered[i] and tonumber(string.match(remembered[i], '^%d+')) > time) then
        reply[r + 1], reply[r + 2], reply[r + 3] = i, 1, ''
      else
        seen[id] = true
        taken[#taken + 1] = id
        bytes = bytes + #ARGV[at + 1]
        redis.call('HSET', q.bodies[b], unpack(ARGV, at, at + 1))
      end
    end
  end
  if #taken == 0 then return reply end
  ids = taken
elseif now > 0 then
  reply = {0, now}
end
redis.call('LPUSH', q.normal, unpack(ids))
count_plain(#ids, bytes)
local longest = tonumber(args.longest)
if longest > biggest() and longest > biggest(redis.call('HGET', q.record, 'big')) then
  redis.call('HSET', q.record, 'big', longest)
end
if there % 4 < 2 then redis.call('LPUSH', q.token, '1') end -- a plain queue is not paused
return reply
