-- extend: renew a worker in queues where nothing else is to be told, as mostly.
--
-- KEYS   record lease_ends lease_counts unreclaimed cancels   (a block for each queue)
-- ARGV   now queues buckets* worker lease   (lease: in µs)
-- Reply  {0, now, when the next leases run out or -1, then per queue: leases held, or -1 where
--        nothing was done and renew.lua has to be asked}
-- @include clock
-- @include open

local worker, till = args.worker, int(up + tonumber(args.lease))
local reply, lapse, removed = {0, now, -1}, math.huge, false
for i = 1, tonumber(args.queues) do
  local q = open()
  reply[i + 3] = -1
  if not q.refused and redis.call('EXISTS', q.unreclaimed, q.cancels) == 0 then
    -- A full store refuses a script that begins with anything but a removal.
    if not removed then redis.call('ZREM', q.lease_ends, '') end
    removed = true
    if redis.call('ZADD', q.lease_ends, 'XX', 'CH', till, worker) == 1 then
      reply[i + 3] = tonumber(redis.call('HGET', q.lease_counts, worker) or -1)
      lapse = math.min(lapse, tonumber(redis.call('ZRANGE', q.lease_ends, 0, 0, 'WITHSCORES')[2]))
    end
  end
end
if lapse < math.huge then reply[3] = lapse end
return reply
