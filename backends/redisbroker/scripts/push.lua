-- push: accept a job under an ID that is new, which needs nothing but its place
-- in the list of normal priority: no options, and a plain queue, as the queue's
-- field p says: with one bucket, no limit, and not paused. It does what enqueue
-- does for it, at half the cost: each command, each argument counts.
--
-- KEYS   m r2 t b*
-- ARGV   0 if the body begins with the time of creation, 1 if with as many
--        bytes that mean nothing; its ID; its body
-- Reply  {0, the time if it had to be asked for}; {0, 0, 1, 1, ''} if the ID
--        exists, as enqueue; {LIMITED} where the job is for enqueue
-- @include layout
if redis.call('HGET', q.m, 'p') ~= PLAIN then
  -- @include why
  return {LIMITED}
end
local id, body, now = ARGV[2], ARGV[3], nil
if ARGV[1] ~= '0' then
  -- @include stamp
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
  body = stamp(now) .. string.sub(body, 9)
end
if redis.call('HSETNX', q.b[1], id, body) == 0 then return {0, 0, 1, 1, ''} end
redis.call('LPUSH', q.r2, id)
if #body > 4096 then
  -- @include big
  if #body > biggest(redis.call('HGET', q.m, 'big')) then redis.call('HSET', q.m, 'big', #body) end
end
if redis.call('LLEN', q.t) == 0 then redis.call('LPUSH', q.t, '1') end -- a plain queue is not paused
return {0, now}
