-- queues: describe a queue.
--
-- KEYS   m a k s w wi z y d ds f g v o r* b*
-- ARGV   now; 1; buckets; 1 to list the workers
-- Reply  {0, now, pending, scheduled, active, retry, completed, dead, cancelled, waiting;
--        how many of the dead are suppressed;
--        creation time of the next job in turn of each priority, 8 bytes or
--        empty; first time of scheduled, retry, completed, dead, cancelled or -1;
--        the policy as policy.lua gives it; then per worker: id, until, info,
--        leases held}
-- @include clock
-- @include open
-- @include read
-- @include due
-- @include turn

local VOIDS = 100 -- void entries passed over to find the next job of a priority

local q, m = open('paused', 'depth', 'retain', 'count', 'deadage', 'deadcount', 'span', 'round', 'void')
if q.refused then return q.refused end
local voids = tonumber(m[11] or 0)
local pending, created = -voids, {}
for p = 1, 4 do
  local n, at = redis.call('LLEN', q.r[p]), 1
  pending, created[p] = pending + n, ''
  n = math.min(n, VOIDS)
  local e = n > 0 and redis.call('LINDEX', q.r[p], -1)
  while voids > 0 and e and redis.call('HGET', q.v, p .. e) do
    at = at + 1
    e = at <= n and redis.call('LINDEX', q.r[p], -at)
  end
  if e then created[p] = string.sub(bodies(q, {id_of_turn(e)})[1] or '', 1, 8) end
end
local waiting = redis.call('HLEN', q.o)
local reply = {0, now, pending, redis.call('ZCARD', q.z) - 1, redis.call('HLEN', q.a) - 1 - waiting, redis.call('ZCARD', q.y) - 1,
  redis.call('ZCARD', q.f), redis.call('ZCARD', q.d), redis.call('ZCARD', q.g), waiting, redis.call('SCARD', q.ds), created[1], created[2], created[3], created[4]}
for _, set in ipairs({q.z, q.y, q.f, q.d, q.g}) do reply[#reply + 1] = due(set) or -1 end
for i = 3, 10 do reply[#reply + 1] = tonumber(m[i] or 0) end
if ARGV[first] == '1' then
  local workers = redis.call('ZRANGE', q.w, 0, -1, 'WITHSCORES')
  for i = 1, #workers, 2 do
    local id = workers[i]
    if string.byte(id) ~= 0 and redis.call('HEXISTS', q.s, id) == 1 then
      for _, v in ipairs({id, tonumber(workers[i + 1]), redis.call('HGET', q.wi, id) or '',
        tonumber(redis.call('HGET', q.k, id) or 0)}) do
        reply[#reply + 1] = v
      end
    end
  end
end
return reply
