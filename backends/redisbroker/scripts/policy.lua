-- policy: change fields of a queue's policy, and read all of it.
--
-- KEYS   record plain scheduled retry ready* token
-- ARGV   now; 1; buckets; then per change: field, value
-- Reply  {0, now, paused, depth, retain, count, deadage, deadcount, span, round}
-- @include clock
-- @include open
-- @include due
-- @include wake

local q = open()
if q.refused then return q.refused end
if #ARGV >= first then
  local changes = {}
  for i = first, #ARGV do changes[#changes + 1] = ARGV[i] end
  redis.call('HSET', q.record, unpack(changes))
end
local m = redis.call('HMGET', q.record, 'paused', 'depth', 'retain', 'count', 'deadage', 'deadcount', 'span', 'round', 'void')
q.paused = m[1] == '1'
if #ARGV >= first then
  if q.paused or tonumber(m[2] or 0) > 0 then redis.call('DEL', q.plain) else redis.call('SET', q.plain, LAYOUT) end
end
if q.paused then
  redis.call('DEL', q.token)
elseif #ARGV >= first then
  local ready = -tonumber(m[9] or 0)
  for p = 1, 4 do ready = ready + redis.call('LLEN', q.ready[p]) end
  -- Claims that wait learnt of no due time while the queue was paused.
  if ready > 0 or next_due(q) then wake(q) end
end
local reply = {0, now}
for i = 1, 8 do reply[i + 2] = tonumber(m[i] or 0) end
return reply
