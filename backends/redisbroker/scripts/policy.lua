-- policy: change fields of a queue's policy, and read all of it.
--
-- KEYS   record plain scheduled retry ready* token
-- ARGV   now queues buckets how_many rules*   (the names of so many rules, then per change: rule, number)
-- Reply  {0, now, the number of each rule}
-- @include clock
-- @include open
-- @include due
-- @include wake

local q = open()
if q.refused then return q.refused end
local behind = first.rules + args.how_many
local changes = #ARGV >= behind
if changes then redis.call('HSET', q.record, unpack(ARGV, behind)) end
local paused, depth = unpack(redis.call('HMGET', q.record, 'paused', 'max_depth'))
q.paused = paused == '1'
if changes then
  if q.paused or tonumber(depth or 0) > 0 then redis.call('DEL', q.plain) else redis.call('SET', q.plain, LAYOUT) end
end
if q.paused then
  redis.call('DEL', q.token)
elseif changes then
  local ready = -tonumber(redis.call('HGET', q.record, 'void') or 0)
  for p = 1, 4 do ready = ready + redis.call('LLEN', q.ready[p]) end
  -- Claims that wait learnt of no due time while the queue was paused.
  if ready > 0 or next_due(q) then wake(q) end
end
local reply = {0, now}
for i, number in ipairs(redis.call('HMGET', q.record, unpack(ARGV, first.rules, behind - 1))) do
  reply[2 + i] = tonumber(number or 0)
end
return reply
