-- lineup: accept jobs as push does, whose bodies the command before it in the
-- same transaction has stored. Most of what a job costs in Lua is its body, so
-- this is a third of the cost. Bodies of jobs that are not accepted go again.
--
-- KEYS   m r2 t b*
-- ARGV   now; 1; buckets; the time of creation that the bodies begin with; the
--        size of the largest; IDs
-- Reply  {0, now}; a refusal; {LIMITED} where the jobs are for enqueue
-- @include clock
-- @include big
-- @include layout
-- @include stamp

local function refusal()
  if tonumber(redis.call('HGET', q.m, 'p')) ~= LAYOUT then
    -- @include open
    local q = open()
    return q.refused or {LIMITED}
  end
  local longest, big, tokens = tonumber(ARGV[5]), nil, redis.call('LLEN', q.t)
  if longest > biggest() then big = biggest(redis.call('HGET', q.m, 'big')) end
  if redis.call('HEXISTS', q.b[1], ARGV[6]) == 0 then error('the bodies were not stored') end
  if stale(tonumber(ARGV[4])) then
    local created = stamp()
    for i = 6, #ARGV do
      local body = redis.call('HGET', q.b[1], ARGV[i])
      redis.call('HSET', q.b[1], ARGV[i], created .. string.sub(body, 9))
    end
  end
  redis.call('LPUSH', q.r2, unpack(ARGV, 6))
  if tokens == 0 then redis.call('LPUSH', q.t, '1') end -- a plain queue is not paused
  if big and longest > big then redis.call('HSET', q.m, 'big', longest) end
end

-- Whatever fails, as for want of memory, does so before the jobs are in line.
local ok, why = pcall(refusal)
if ok and not why then return {0, now} end
redis.call('HDEL', q.b[1], unpack(ARGV, 6))
if ok then return why end
if type(why) == 'table' then why = why.err end
return redis.error_reply((string.gsub(why, '^.*user_script:%s?%d+: %-?', '')))
