-- renew: extend a worker's leases in all queues of some groups at once. A group is the queues
-- that share a hash tag; group_ends says until when the leases of each worker hold in all of them.
--
-- KEYS   group_ends group_news   (a block for each queue)
-- ARGV   now queues buckets* worker lease searched*
--        (one queue of each group stands for it; lease: in µs; searched: per group, when Reclaim
--        last found all workers that had run out in the queues of this one)
-- Reply  {0, now, then per group: when the next leases run out, or -1 where nothing was done and
--        extend.lua has to ask the queues: the worker is not registered in the group, or has news}
-- @include clock
-- @include group

local worker, till = args.worker, int(up + tonumber(args.lease))
local reply, last = {0, now}, 0
for i = 1, tonumber(args.queues) do
  local q
  q, last = names(last, 0)
  -- Begin with a removal, since a full store refuses other scripts.
  if i == 1 then redis.call('ZREM', q.group_ends, '') end
  reply[i + 2] = -1
  if redis.call('SISMEMBER', q.group_news, worker) == 0 and redis.call('ZADD', q.group_ends, 'XX', 'CH', till, worker) == 1 then
    reply[i + 2] = next_lapse(q, ARGV[first.searched + i - 1])
  end
end
return reply
