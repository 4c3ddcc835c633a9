-- push: accept a job under an ID that is new, which needs nothing but its place
-- in the list of normal priority: no options, a body of no note, and a plain
-- queue, as the key p says: without a limit, and not paused. It does what enqueue
-- does for it, at half the cost: each command, each argument counts.
--
-- KEYS   p r2 t b*   (of the buckets only the job's)
-- ARGV   its ID; its body; anything if the body begins with bytes that mean
--        nothing and not with the time of creation
-- Reply  {0, the time}, or where that was not asked for 0 alone, which costs a
--        tenth less than a table; {0, 0, 1, 1, ''} if the ID exists, as
--        enqueue; {LIMITED} where the job is for enqueue
local there = redis.call('EXISTS', q.p, q.p, q.t) -- 1 is a token alone; 2 is plain, without one; 3 is both
if there < 2 then
  -- @include why
  return {LIMITED}
end
local id, body, now = ARGV[1], ARGV[2], nil
if ARGV[3] then
  -- @include stamp
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
  body = stamp(now) .. string.sub(body, 9)
end
if redis.call('HSETNX', q.b[1], id, body) == 0 then return {0, 0, 1, 1, ''} end
redis.call('LPUSH', q.r2, id)
if there == 2 then redis.call('LPUSH', q.t, '1') end -- a plain queue is not paused
return now and {0, now} or 0
