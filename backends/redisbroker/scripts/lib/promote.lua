-- @include due
-- @include entry
-- @include rings

local PROMOTED = 1000 -- how many more due jobs a call moves than it leases, in all queues together

-- overdue returns the first due entries of a set, up to a number. overdue_at does so with their times.
local function overdue(key, most) return redis.call('ZRANGE', key, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, most) end
local function overdue_at(key, most) return redis.call('ZRANGE', key, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES') end

-- merged merges two lists of entries with times. It returns the first entries by time, and how many are from
-- each list.
local function merged(zs, ys, most)
  local all, z, y = {}, 0, 0
  while #all < most and (zs[2 * z + 1] or ys[2 * y + 1]) do
    local a, b = tonumber(zs[2 * z + 2]), tonumber(ys[2 * y + 2])
    if a and (not b or a <= b) then
      z = z + 1
      all[#all + 1] = zs[2 * z - 1]
    else
      y = y + 1
      all[#all + 1] = ys[2 * y - 1]
    end
  end
  return all, z, y
end

-- add_due_keyed makes due jobs with a key pending. The head of a key goes before its other jobs.
local function add_due_keyed(q, keyed)
  if #keyed == 0 then return end
  local members = {}
  for i = 1, #keyed, 4 do members[#members + 1] = keyed[i] .. '\0' .. keyed[i + 3] end
  redis.call('ZREM', q.by_key, unpack(members))
  local back, front, freed_by = keyed, {}, {}
  if q.rules and q.rules.ordered > 0 then
    back = {}
    for i = 1, #keyed, 4 do
      local first_one = is_head(q, keyed[i], keyed[i + 3])
      local list = first_one and front or back
      for k = 0, 3 do list[#list + 1] = keyed[i + k] end
      if first_one then freed_by[#freed_by + 1] = keyed[i] end
    end
  end
  add_keyed(q, back)
  add_keyed(q, front, true)
  free_keys(q, freed_by)
end

-- first_due returns the first due entries of both sets together, in order, and how many of them are scheduled and
-- how many are retry jobs. Mostly only one set has any, and then their times are not needed.
local function first_due(q, most)
  local z, y = due(q.scheduled), due(q.retry)
  local of_z, of_y = z and z <= now and most or 0, y and y <= now and math.min(most, (retries(q))) or 0
  if of_z > 0 and of_y > 0 then return merged(overdue_at(q.scheduled, of_z), overdue_at(q.retry, of_y), most) end
  if of_y > 0 then
    local all = overdue(q.retry, of_y)
    return all, 0, #all
  end
  local all = of_z > 0 and overdue(q.scheduled, of_z) or {}
  return all, #all, 0
end

-- promote makes due jobs pending, the earliest first, and removes them from the sets. Jobs with a key are
-- added to the jobs of their key. Jobs without a key go to q.promoted, by priority: the claim leases them after
-- the jobs of the ready lists, and put_back adds the rest to the lists. promote moves at most as many jobs as
-- the share wants, plus the queue's part of PROMOTED, so that a call moves few more jobs than it leases.
local function promote(q, want, queues)
  local all, of_z, of_y = first_due(q, math.min(PROMOTED, want + math.ceil(PROMOTED / queues)))
  if of_z > 0 then redis.call('ZREMRANGEBYRANK', q.scheduled, 0, of_z - 1) end
  if of_y > 0 then
    redis.call('ZREMRANGEBYRANK', q.retry, 0, of_y - 1)
    if q.retry_bucket then
      q.retry_bucket[2] = q.retry_bucket[2] + of_y
      redis.call('HSET', q.record, 'retry_bucket', bucket_text(q.retry_bucket))
    end
  end
  q.promoted = {}
  for p = 1, 4 do q.promoted[p] = {ids = {}, epochs = {}, taken = 0} end
  local keyed = {}
  for _, e in ipairs(all) do
    local colon = find(e, ':', 3, true)
    if find(e, '\n', colon, true) then
      local n, id, key = #keyed, id_of_entry(e)
      keyed[n + 1], keyed[n + 2], keyed[n + 3], keyed[n + 4] = key, sub(e, 1, 1), sub(e, 2, colon - 1), id
      q.keyed = true
    else
      local late = q.promoted[byte(e) - 48] -- the first character is the priority
      local n = #late.ids + 1
      late.ids[n], late.epochs[n] = sub(e, colon + 1), byte(e, 2) ~= 48 and sub(e, 2, colon) -- 48: epoch 0
    end
  end
  add_due_keyed(q, keyed)
  q.due = next_due(q)
end

-- put_back adds the jobs left in q.promoted to the ready lists.
local function put_back(q)
  for p = 1, 4 do
    local late, entries = q.promoted[p], {}
    for i = late.taken + 1, #late.ids do
      entries[#entries + 1] = late.epochs[i] and '\1' .. late.epochs[i] .. late.ids[i] or late.ids[i]
    end
    if #entries > 0 then
      redis.call('LPUSH', q.ready[p], unpack(entries))
      q.drained[p] = false
    end
  end
end
