-- extend: count a worker's leases queue by queue. If the call has all queues of a group that the worker
-- serves, also extend the leases: from then on renew.lua extends them together. It can also register the
-- worker.
--
-- KEYS   record lease_ends worker_infos lease_counts workers ended_workers unreclaimed cancels
--        group_ends group_counts group_news   (a block for each queue)
-- ARGV   now queues buckets* worker lease all register info searched
--        (lease: in µs; all: not 0 when these are all queues of the worker in one group, and 2 to look for
--        news of it that the group does not know; register: 1 to register; info: empty to leave it as it
--        is; searched: as in renew.lua)
-- Reply  {0, now, when the next leases run out or -1, then per queue: leases held, or -1 where
--        register.lua has to be asked: the worker cannot be registered there, or has news}
-- @include clock
-- @include open
-- @include group
-- @include join

local worker, till, all, register = args.worker, int(up + tonumber(args.lease)), args.all ~= '0', args.register == '1'
local reply, registered, news, group = {0, now, -1}, true, args.all == '2', nil
for i = 1, tonumber(args.queues) do
  local q = open()
  reply[i + 3] = -1
  local known = not q.refused and redis.call('HEXISTS', q.workers, worker) == 1
  local new = register and not q.refused and not known and redis.call('HEXISTS', q.ended_workers, worker) == 0
  if not known and not new then
    registered = registered and q.refused and q.refused[1] == NEWER
  else
    -- Begin with a removal, since a full store refuses other scripts.
    if not group then
      redis.call('ZREM', q.lease_ends, '')
      news = news or redis.call('SISMEMBER', q.group_news, worker) == 1
    end
    group = q
    if all or new then redis.call('ZADD', q.lease_ends, till, worker) end
    if new then join(q, worker) end
    if args.info ~= '' then redis.call('HSET', q.worker_infos, worker, args.info) end
    -- Most workers need not look through the requests to cancel, which are those of all workers.
    if redis.call('EXISTS', q.unreclaimed) == 0 and not (news and redis.call('EXISTS', q.cancels) == 1) then
      reply[i + 3] = tonumber(redis.call('HGET', q.lease_counts, worker) or 0)
    end
  end
end
if group and all then
  local q = group
  -- The time of the group must never be before the time of a queue, even if another queue has ended the worker.
  redis.call('ZADD', q.group_ends, registered and 'CH' or 'XX', till, worker)
  if registered then redis.call('SREM', q.group_news, worker) end -- register.lua adds it again while there is news
  reply[3] = next_lapse(q, args.searched)
end
return reply
