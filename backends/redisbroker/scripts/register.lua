-- register: register a worker in a queue, or extend its leases there, and return everything about it.
--
-- KEYS   record lease_ends worker_infos lease_counts workers ended_workers unreclaimed cancels
--        leases group_ends group_counts group_news
-- ARGV   now queues buckets worker lease register info
--        (lease: in µs; register: 1 to register; info: empty to leave it as it is)
-- Reply  {0, now, leases held, 1 when Reclaim has jobs of ended workers to hand out, then per job
--        asked to cancel: id, epoch}; a refusal; {GONE} when the ID is over or unknown
-- @include clock
-- @include open
-- @include holder
-- @include join

local q = open()
if q.refused then return q.refused end
local worker, lease, register = args.worker, tonumber(args.lease), args.register == '1'
local new = redis.call('HEXISTS', q.workers, worker) == 0
if new and (not register or redis.call('HEXISTS', q.ended_workers, worker) == 1) then return {GONE} end

-- Begin with a removal: a full store refuses other scripts, and workers must not
-- lose their leases for that.
redis.call('ZREM', q.lease_ends, worker)
redis.call('ZADD', q.lease_ends, int(up + lease), worker)
redis.call('ZADD', q.group_ends, 'XX', int(up + lease), worker)
if args.info ~= '' then redis.call('HSET', q.worker_infos, worker, args.info) end
if new then join(q, worker) end

local reply = {0, now, tonumber(redis.call('HGET', q.lease_counts, worker)), redis.call('EXISTS', q.unreclaimed)}
if redis.call('HLEN', q.cancels) > 0 then
  local asked = redis.call('HGETALL', q.cancels)
  for i = 1, #asked, 2 do
    if asked[i + 1] == worker then
      local lease = redis.call('HGET', q.leases, asked[i])
      if lease then -- it may be lost
        local _, epoch = holder(lease)
        reply[#reply + 1] = asked[i]
        reply[#reply + 1] = epoch
      end
    end
  end
end
if reply[4] > 0 or #reply > 4 then redis.call('SADD', q.group_news, worker) end -- ask this queue next time, too
return reply
