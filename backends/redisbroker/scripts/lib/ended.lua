-- @include rings
-- @include wake

-- Ends of leases and jobs change the sets of keys. The changes are collected here, and written
-- together.
local idle, unlisted, ended_members, freed = {}, {}, {}, {}

-- end_lease records that a job with a key is not active any more.
local function end_lease(key, id)
  idle[#idle + 1] = key .. '\0' .. id
  freed[key] = true
end

-- end_leases_of does the same for many jobs, given as members of active_keys, before the first end_lease.
-- Their keys matter only if there are blocked ones.
local function end_leases_of(q, members)
  idle = members
  if redis.call('EXISTS', q.blocked) == 0 then return end
  for _, m in ipairs(members) do freed[string.match(m, '^%Z*')] = true end
end

-- release_slots removes the jobs recorded by end_lease from the active ones of their keys.
local function release_slots(q)
  if #idle > 0 then redis.call('ZREM', q.active_keys, unpack(idle)) end
end

-- drop_head records that a job is not the head of its key any more.
local function drop_head(q, key, id)
  if is_head(q, key, id) then
    redis.call('HDEL', q.key_heads, key)
    freed[key] = true
  end
end

-- died records that a job is dead. The head of a key stays its head, unless the policy says to skip
-- dead ones.
local function died(q, key, id)
  if not is_head(q, key, id) then return end
  if q.rules.ordered == SKIP then
    drop_head(q, key, id)
  else
    redis.call('HSET', q.key_heads, key, id .. '\n' .. (redis.call('HGET', q.record, 'skips') or '0'))
  end
end

-- unlist records that a job ended; kept says whether it has a record.
local function unlist(q, key, id, kept)
  unlisted[#unlisted + 1] = key .. '\0' .. id
  if kept then
    ended_members[#ended_members + 1] = 0
    ended_members[#ended_members + 1] = key .. '\0' .. id
  end
end

-- write_keys writes what was recorded, and looks again at the keys whose jobs ended. It returns whether
-- to wake a claim.
local function write_keys(q)
  if #unlisted > 0 then
    local n = redis.call('ZREM', q.by_key, unpack(unlisted))
    if n < #unlisted then redis.call('ZREM', q.ended_keys, unpack(unlisted)) end
    if #ended_members > 0 then redis.call('ZADD', q.ended_keys, unpack(ended_members)) end
  end
  local keys = {}
  for key in pairs(freed) do keys[#keys + 1] = key end
  idle, unlisted, ended_members, freed = {}, {}, {}, {}
  return free_keys(q, keys)
end

-- made_room wakes a claim if the end of n leases brought the queue below its limit of active jobs.
local function made_room(q, n)
  local most = q.rules and q.rules.max_active or 0
  if n == 0 or most == 0 then return end
  local left = active_jobs(q)
  if left >= most or left + n < most then return end
  if redis.call('EXISTS', q.ready[1], q.ready[2], q.ready[3], q.ready[4]) > 0 or any_keyed(q) or next_due(q) then wake(q) end
end
