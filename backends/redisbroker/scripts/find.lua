-- find: one page of jobs, or jobs by ID.
--
-- KEYS   m h a c i z y d f g o r* b*
-- ARGV   now; 1; buckets; most jobs examined; 1 to leave payloads out; how to
--        select; cursor; then for "ids": the IDs; for "active": worker or empty;
--        for "waiting": nothing;
--        for "key": the key; for z, y, d, f and g: score from, score before
-- Reply  {0, now, cursor, then per job: id, state, due time or -1, worker or, of
--        a held job, what o says, 1 if asked to cancel, body, head}. A page ends early after 8 MB; for "ids"
--        the cursor is how many were looked at then.
-- @include clock
-- @include open
-- @include big
-- @include read
-- @include holder
-- @include place
-- @include pages

local BYTES = 8388608

local q, m = open('big')
if q.refused then return q.refused end
local n = tonumber(ARGV[first])
n = math.max(1, math.min(n, math.floor(BYTES / biggest(m[3]))))
local trimmed, how, cursor = ARGV[first + 1] == '1', ARGV[first + 2], ARGV[first + 3]
local ids, listed = {}, nil
if how == 'ids' then
  local from = first + 4 + tonumber(cursor)
  for at = from, math.min(#ARGV, from + n - 1) do ids[#ids + 1] = ARGV[at] end
  cursor = ''
  if from + n <= #ARGV then cursor = int(from + n - first - 4) end
elseif how == 'ready' then
  ids, cursor = ready(q, cursor, n)
  listed = PENDING
elseif how == 'active' then
  ids, cursor = unordered(q.a, cursor, n, ARGV[first + 4])
  listed = ACTIVE
elseif how == 'waiting' then
  ids, cursor = unordered(q.o, cursor, n, '')
  listed = WAITING
elseif how == 'key' then
  ids, cursor = keyed(q, cursor, n, ARGV[first + 4])
else
  local sets = {z = q.z, y = q.y, d = q.d, f = q.f, g = q.g}
  ids, cursor = timed(sets[how], cursor, n, ARGV[first + 4], ARGV[first + 5])
  if how == 'z' or how == 'y' then
    for i, e in ipairs(ids) do ids[i] = string.sub(e, string.find(e, ':', 3, true) + 1) end
  end
end

local reply = {0, now, cursor}
if #ids == 0 then return reply end

-- without_payload cuts a body of version 1 before its payload, field 3, which
-- is its last.
local function without_payload(body)
  if string.byte(body, 9) ~= 1 then return body end
  local _, i = index_of(body)
  while i <= #body do
    local tag, after = uvarint(body, i)
    if tag == 7 or not tag then return string.sub(body, 1, i - 1) end
    local v
    v, after = uvarint(body, after)
    if not v then return body end
    if tag % 2 == 1 then after = after + v end
    i = after
  end
  return body
end

local stored, heads = bodies(q, ids), redis.call('HMGET', q.h, unpack(ids))
local leases, asked = redis.call('HMGET', q.a, unpack(ids)), {}
if redis.call('HLEN', q.c) > 0 then asked = redis.call('HMGET', q.c, unpack(ids)) end
local seen = {}
for i, id in ipairs(ids) do
  local body = stored[i]
  if body and not (listed and seen[id]) then
    local state, _, at = place(q, id, index_of(body), heads[i], leases[i])
    if not listed or state == listed then
      local worker = ''
      if state == WAITING then
        worker = redis.call('HGET', q.o, id) or ''
      elseif leases[i] then
        _, _, worker = holder(leases[i])
      end
      if trimmed then body = without_payload(body) end
      for _, v in ipairs({id, state, at or -1, worker, asked[i] and 1 or 0, body, heads[i] or ''}) do
        reply[#reply + 1] = v
      end
    end
    seen[id] = true
  end
end
return reply
