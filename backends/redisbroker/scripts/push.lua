-- push: accept a job under an ID that is new, which needs nothing but its place
-- in the list of normal priority: no options, and a plain queue, as the queue's
-- field p says: with one bucket, no limit, and not paused. It does what enqueue
-- does for it, at half the cost.
--
-- KEYS   m r2 t b*
-- ARGV   now; 1; buckets; its time of creation, as far as the caller knows;
--        its ID; its body, which begins with that time
-- Reply  {0, now}, and {…, 1, 1, ''} if it is refused, as enqueue; a refusal;
--        {LIMITED} where it is for enqueue
-- @include clock
-- @include big
-- @include layout
-- @include stamp

if tonumber(redis.call('HGET', q.m, 'p')) ~= LAYOUT then
  -- @include open
  local q = open()
  return q.refused or {LIMITED}
end
local id, body = ARGV[5], ARGV[6]
if stale(tonumber(ARGV[4])) then body = stamp() .. string.sub(body, 9) end
if redis.call('HSETNX', q.b[1], id, body) == 0 then return {0, now, 1, 1, ''} end
redis.call('LPUSH', q.r2, id)
if #body > biggest() and #body > biggest(redis.call('HGET', q.m, 'big')) then redis.call('HSET', q.m, 'big', #body) end
if redis.call('LLEN', q.t) == 0 then redis.call('LPUSH', q.t, '1') end -- a plain queue is not paused
return {0, now}
