-- lineup: accept jobs as push does, whose bodies the command before it in the
-- same transaction has stored. Most of what a job costs in Lua is its body, so
-- this is a third of the cost. Bodies of jobs that are not accepted go again.
--
-- KEYS   m r2 t b*
-- ARGV   0 if the bodies begin with the time of creation; otherwise what they
--        begin with, the time as far as the caller knows; the size of the
--        largest body; IDs
-- Reply  {0, the time if it had to be asked for}; {LIMITED} where the jobs are
--        for enqueue

local now

-- restamp writes the time of creation into bodies where it is to come, or was
-- over 10 ms ago.
local function restamp(at)
  -- @include stamp
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
  if at <= now and now - at <= 10000 then return end
  local created = stamp(now)
  for i = 3, #ARGV do
    local body = redis.call('HGET', q.b[1], ARGV[i])
    redis.call('HSET', q.b[1], ARGV[i], created .. string.sub(body, 9))
  end
end

local function refusal()
  -- @include layout
  if redis.call('HGET', q.m, 'p') ~= PLAIN then
    -- @include why
    return {LIMITED}
  end
  -- @include big
  local longest, big, tokens = tonumber(ARGV[2]), nil, redis.call('LLEN', q.t)
  if longest > biggest() then big = biggest(redis.call('HGET', q.m, 'big')) end
  if redis.call('HEXISTS', q.b[1], ARGV[3]) == 0 then error('the bodies were not stored') end
  if ARGV[1] ~= '0' then restamp(tonumber(ARGV[1])) end
  redis.call('LPUSH', q.r2, unpack(ARGV, 3))
  if tokens == 0 then redis.call('LPUSH', q.t, '1') end -- a plain queue is not paused
  if big and longest > big then redis.call('HSET', q.m, 'big', longest) end
end

-- Whatever fails, as for want of memory, does so before the jobs are in line.
local ok, why = pcall(refusal)
if ok and not why then return {0, now} end
redis.call('HDEL', q.b[1], unpack(ARGV, 3))
if ok then return why end
if type(why) == 'table' then why = why.err end
return redis.error_reply((string.gsub(why, '^.*user_script:%s?%d+: %-?', '')))
