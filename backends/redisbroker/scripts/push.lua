-- push: accept a job under an ID that is new, which needs nothing but its place
-- in the list of normal priority: no options, and a plain queue, as the queue's
-- field p says: with one bucket, no limit, and not paused. It does what enqueue
-- does for it, at half the cost.
--
-- KEYS   m r2 t b*
-- ARGV   now; 1; buckets; '1' if the body begins with the time of creation, '0'
--        with as many bytes that mean nothing; its ID; its body
-- Reply  {0, and the time if it had to be asked for}, and {0, 0, 1, 1, ''} if it
--        is refused, as enqueue; a refusal; {LIMITED} where it is for enqueue
-- @include big
-- @include layout

if tonumber(redis.call('HGET', q.m, 'p')) ~= LAYOUT then
  -- @include open
  local q = open()
  return q.refused or {LIMITED}
end
local id, body, reply = ARGV[5], ARGV[6], {0}
if ARGV[4] == '0' then
  -- @include clock
  -- @include stamp
  body, reply[2] = stamp() .. string.sub(body, 9), now
end
if redis.call('HSETNX', q.b[1], id, body) == 0 then return {0, 0, 1, 1, ''} end
redis.call('LPUSH', q.r2, id)
if #body > biggest() and #body > biggest(redis.call('HGET', q.m, 'big')) then redis.call('HSET', q.m, 'big', #body) end
if redis.call('LLEN', q.t) == 0 then redis.call('LPUSH', q.t, '1') end -- a plain queue is not paused
return reply
