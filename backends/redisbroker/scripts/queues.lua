-- queues: describe a queue.
--
-- KEYS   m a k s w wi z y d f g v o r* b*
-- ARGV   now; 1; buckets; 1 to list the workers
-- Reply  {0, now, pending, scheduled, active, retry, completed, dead, cancelled, waiting;
--        creation time of the next job in turn, 8 bytes or empty; first time of
--        scheduled, retry, completed, dead, cancelled or -1; the policy as
--        policy.lua gives it; then per worker: id, until, info, leases held}
-- @include clock
-- @include open
-- @include read
-- @include due
-- @include turn

local VOIDS = 100 -- void entries passed over to find the next job

local q, m = open('paused', 'depth', 'retain', 'count', 'deadage', 'deadcount', 'span', 'void')
if q.refused then return q.refused end
local pending, next_id = -tonumber(m[10] or 0), nil
for p = 1, 4 do
  local n = redis.call('LLEN', q.r[p])
  pending = pending + n
  for i = 1, math.min(n, VOIDS) do
    if next_id then break end
    local e = redis.call('LINDEX', q.r[p], -i)
    if not redis.call('HGET', q.v, p .. e) then next_id = id_of_turn(e) end
  end
end
local created = ''
if next_id then created = string.sub(bodies(q, {next_id})[1] or '', 1, 8) end
local waiting = redis.call('HLEN', q.o)
local reply = {0, now, pending, redis.call('ZCARD', q.z) - 1, redis.call('HLEN', q.a) - 1 - waiting, redis.call('ZCARD', q.y) - 1,
  redis.call('ZCARD', q.f), redis.call('ZCARD', q.d), redis.call('ZCARD', q.g), waiting, created}
for _, set in ipairs({q.z, q.y, q.f, q.d, q.g}) do reply[#reply + 1] = due(set) or -1 end
for i = 3, 9 do reply[#reply + 1] = tonumber(m[i] or 0) end
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
