-- reclaim: end workers whose leases ran out, and lease their jobs to the caller.
-- unreclaimed has ended workers that still have leases. The record's field scan is the position of the search
-- through the leases. The search starts again when a worker is added, so that when it ends none of these workers
-- has a lease left.
--
-- KEYS   record lease_ends worker_infos lease_counts workers ended_workers unreclaimed leases heads
--        cancels lapses group_ends group_counts group_news bodies*
-- ARGV   now queues buckets worker most_jobs most_bytes
--        (most_bytes: of bodies and heads, at which the answer ends)
-- Reply  {0, now, 1 when more is left, then per job: id, body, head, 1 if asked
--        to cancel}; a refusal; {GONE} when the caller itself has ended
-- @include clock
-- @include open
-- @include worker
-- @include head
-- @include emptied
-- @include read
-- @include lease_end
-- @include leave_group

local ENDED = 100     -- how many workers one call ends
local LOOKS = 1000    -- at how many workers one call looks
local STEPS = 10      -- how many steps of the search one call makes

local q, m = open('scan')
if q.refused then return q.refused end
local worker, most = args.worker, tonumber(args.most_jobs)
if redis.call('HEXISTS', q.workers, worker) == 0 or (lease_end(q, worker) or 0) <= now then return {GONE} end

-- ran_out returns workers of the queue whose leases ran out, and whether there may be more. Renewals update only
-- the time of the group. The queue's time for a worker is not later than the group's; it is updated here.
local function ran_out()
  local ids = redis.call('ZRANGE', q.lease_ends, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, LOOKS)
  local ends = #ids > 0 and redis.call('ZMSCORE', q.group_ends, unpack(ids))
  local late, renewed = {}, {}
  for i, id in ipairs(ids) do
    if ends[i] and tonumber(ends[i]) > now then
      renewed[#renewed + 1], renewed[#renewed + 2] = ends[i], id
    else
      late[#late + 1] = id
    end
  end
  if #renewed > 0 then redis.call('ZADD', q.lease_ends, unpack(renewed)) end
  -- If the clock was set back, the group may have an earlier time than the queue.
  for _, id in ipairs(redis.call('ZRANGE', q.group_ends, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, LOOKS)) do
    if tonumber(redis.call('ZSCORE', q.lease_ends, id) or 0) > now then late[#late + 1] = id end
  end
  return late, #late > ENDED or #ids == LOOKS
end

redis.call('ZREM', q.lease_ends, '') -- a full server lets a script go on that removed something
local cursor = m.scan or '0'
local late, more_late = ran_out()
for i = 1, math.min(#late, ENDED) do
  local id = late[i]
  redis.call('ZREM', q.lease_ends, id)
  redis.call('HDEL', q.workers, id)
  redis.call('HDEL', q.worker_infos, id)
  end_worker(q, id)
  redis.call('SADD', q.group_news, id)
  if tonumber(redis.call('HGET', q.lease_counts, id) or 0) > 0 then
    redis.call('HSET', q.unreclaimed, id, int(up))
    cursor = '0'
  else
    redis.call('HDEL', q.lease_counts, id)
    leave_group(q, id)
  end
end

local ended, left = {}, 0
for _, id in ipairs(redis.call('HKEYS', q.unreclaimed)) do
  local held = tonumber(redis.call('HGET', q.lease_counts, id) or 0)
  if held > 0 then
    ended[id] = held
    left = left + 1
  else
    redis.call('HDEL', q.unreclaimed, id)
    leave_group(q, id)
  end
end

local reply, taken, room = {0, now, 0}, 0, tonumber(args.most_bytes)

-- take leases jobs of ended workers to the caller.
local function take(ids, leases)
  local stored, heads = bodies(q, ids), redis.call('HMGET', q.heads, unpack(ids))
  local asked, set, moves = {}, {}, {}
  if redis.call('HLEN', q.cancels) > 0 then asked = redis.call('HMGET', q.cancels, unpack(ids)) end
  redis.call('HDEL', q.leases, unpack(ids))
  for i, id in ipairs(ids) do
    local priority, epoch, by, index = holder(leases[i])
    ended[by] = ended[by] - 1
    if ended[by] == 0 then left = left - 1 end
    local head = heads[i]
    if readable(head) or not head and epoch == 0 then
      head = moved_head(head, epoch + 1, ACTIVE, '0', 0)
    else
      head = int(epoch + 1) .. ':' .. (head or '')
    end
    moves[#moves + 1] = id
    moves[#moves + 1] = head
    set[#set + 1] = id
    set[#set + 1] = priority .. int(epoch + 1) .. ':' .. worker .. '\n' .. index
    if asked[i] then
      redis.call('HSET', q.cancels, id, worker)
      redis.call('SADD', q.group_news, worker)
    end
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = id, stored[i] or emptied(q, id), head, asked[i] and 1 or 0
  end
  redis.call('HSET', q.leases, unpack(set))
  redis.call('HSET', q.heads, unpack(moves))
  taken = taken + #ids
end

local full = false
for _ = 1, STEPS do
  if left == 0 or full then break end
  local scan = redis.call('HSCAN', q.leases, cursor, 'COUNT', 1000)
  local ids, leases = {}, {}
  for i = 1, #scan[2], 2 do
    local id = scan[2][i]
    if id ~= '' then
      local _, _, by = holder(scan[2][i + 1])
      if ended[by] then
        if #ids >= most - taken or room <= 0 then
          full = true
          break
        end
        room = room - redis.call('HSTRLEN', q.bodies[bucket(q, id)], id) - redis.call('HSTRLEN', q.heads, id)
        ids[#ids + 1] = id
        leases[#leases + 1] = scan[2][i + 1]
      end
    end
  end
  if #ids > 0 then take(ids, leases) end
  if not full then
    cursor = scan[1]
    if cursor == '0' then
      for id in pairs(ended) do ended[id] = 0 end
      left = 0
    end
  end
end

if taken > 0 then redis.call('HINCRBY', q.lease_counts, worker, taken) end
for id, held in pairs(ended) do
  if held > 0 then
    redis.call('HSET', q.lease_counts, id, held)
  else
    redis.call('HDEL', q.lease_counts, id)
    redis.call('HDEL', q.unreclaimed, id)
    leave_group(q, id)
  end
end
if redis.call('HLEN', q.unreclaimed) > 0 then
  redis.call('HSET', q.record, 'scan', cursor)
  reply[3] = 1
elseif m.scan then
  redis.call('HDEL', q.record, 'scan')
end
if more_late then reply[3] = 1 end
return reply
