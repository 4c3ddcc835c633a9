-- renew: register a worker, or extend all its leases.
--
-- KEYS   m w wi k s x n c a
-- ARGV   now; 1; buckets; worker; lease in µs; 1 to register; info,
--        empty to leave it as it is
-- Reply  {0, now, leases held, when the next leases run out, then per job asked
--        to cancel: id, epoch}; a refusal; {GONE} when the ID is over or unknown
-- @include clock
-- @include open
-- @include holder

local q = open()
if q.refused then return q.refused end
local worker, lease, register = ARGV[first], tonumber(ARGV[first + 1]), ARGV[first + 2] == '1'
local new = redis.call('HEXISTS', q.s, worker) == 0
if new and (not register or redis.call('HEXISTS', q.x, worker) == 1) then return {GONE} end

-- A removal comes first: a full store refuses a script that begins with
-- anything else, and workers must not lose their leases for that.
redis.call('ZREM', q.w, worker)
redis.call('ZADD', q.w, int(up + lease), worker)
if register or ARGV[first + 3] ~= '' then redis.call('HSET', q.wi, worker, ARGV[first + 3]) end
if new then
  redis.call('HSET', q.k, worker, 0)
  redis.call('HSET', q.s, worker, '0:')
end

local lapse = tonumber(redis.call('ZRANGE', q.w, 0, 0, 'WITHSCORES')[2])
if redis.call('HLEN', q.n) > 0 then lapse = now end -- what ended workers held is for a reclaim
local reply = {0, now, tonumber(redis.call('HGET', q.k, worker)), lapse}
if redis.call('HLEN', q.c) > 0 then
  local asked = redis.call('HGETALL', q.c)
  for i = 1, #asked, 2 do
    if asked[i + 1] == worker then
      local _, epoch = holder(redis.call('HGET', q.a, asked[i]))
      reply[#reply + 1] = asked[i]
      reply[#reply + 1] = epoch
    end
  end
end
return reply
