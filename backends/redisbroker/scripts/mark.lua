-- mark: read, take, keep, set or drop a mark, or remove lapsed marks. A
-- mark is stored as fence .. "," .. until .. "," .. owner .. "\n" .. value. The
-- counter fences outlives every mark.
--
-- KEYS   marks lapses fences
-- ARGV   now queues buckets action name owner fence ttl value
--        (action: read, take, keep, set, drop; or prune, whose name is how many; ttl: in µs)
-- Reply  {0, now, 1 if held, owner, fence, value, until}; for prune
--        {0, now, marks removed, 1 when more are left}
-- @include clock

local LAPSED = 10 -- how many lapsed marks each other change removes as well

local q = names(0)
local action, name, owner, fence = args.action, args.name, args.owner, tonumber(args.fence)

local function prune(n)
  local lapsed = redis.call('ZRANGE', q.lapses, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, n)
  if #lapsed > 0 then
    redis.call('ZREM', q.lapses, unpack(lapsed))
    redis.call('HDEL', q.marks, unpack(lapsed))
  end
  return #lapsed
end

if action == 'prune' then
  local n = tonumber(name)
  local removed = prune(n)
  return {0, now, removed, removed == n and 1 or 0}
end

local mark
local stored = redis.call('HGET', q.marks, name)
if stored then
  local number, till, by, value = string.match(stored, '^(%d+),(%d+),([^\n]*)\n(.*)$')
  if tonumber(till) > now then
    mark = {fence = tonumber(number), till = tonumber(till), owner = by, value = value}
  end
end
local held = mark ~= nil
if action ~= 'read' then
  held = held and mark.owner == owner and (action == 'take' or mark.fence == fence)
  if not held and (mark or action ~= 'take') then action = 'read' end
end

if action ~= 'read' then
  -- Begin with a removal: a full store refuses other scripts, and an owner must
  -- not lose its mark for that. The mark itself stays until the end: if it is the only one, its keys would go
  -- with it, and a node whose slot is being moved ends a script that then uses them again.
  redis.call('ZREM', q.lapses, '')
  prune(LAPSED)
  if action == 'drop' then
    redis.call('HDEL', q.marks, name)
    redis.call('ZREM', q.lapses, name)
    mark = nil
  else
    if action == 'take' then
      mark = mark or {owner = owner, value = args.value}
      mark.fence = redis.call('INCR', q.fences)
      held = true
    end
    if action == 'set' then mark.value = args.value end
    mark.till = up + tonumber(args.ttl)
    redis.call('HSET', q.marks, name, int(mark.fence) .. ',' .. int(mark.till) .. ',' .. mark.owner .. '\n' .. mark.value)
    redis.call('ZADD', q.lapses, int(mark.till), name)
  end
end
if not mark then return {0, now, held and 1 or 0, '', 0, '', -1} end
return {0, now, held and 1 or 0, mark.owner, mark.fence, mark.value, mark.till}
