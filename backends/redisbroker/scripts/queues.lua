-- queues: describe a queue.
--
-- KEYS   record plain leases lease_counts workers lease_ends worker_infos scheduled retry dead suppressed
--        completed cancelled void_entries held key_pieces key_spans rings* blocked rechecked ready* group_ends bodies*
-- ARGV   now queues buckets with_workers all totals* rules*
--        (with_workers: 1 to list them; all: how many totals there are, with the bytes, the last)
-- Reply  {0, now, pending, scheduled, active, retry, completed, dead, cancelled, waiting;
--        how many of the dead are suppressed;
--        creation time of the next job of each priority, 8 bytes or
--        empty; first time of scheduled, retry, completed, dead, cancelled or -1;
--        the value of the key plain (lib/sums), empty for 0; the totals, of which the first lacks the
--        jobs in plain; the bytes without those in plain; the policy as policy.lua gives it; then per worker: id, until, info,
--        leases held}
-- @include clock
-- @include open
-- @include read
-- @include due
-- @include seek
-- @include lease_end

local VOIDS = 100 -- how many void entries are skipped at most to find the next job of a priority
local BLOCKED = 100 -- how many keys outside of the rings are read at most for the same

local q, m = open('void', 'keyed')
if q.refused then return q.refused end
local voids = tonumber(m.void or 0)
local pending, created = -voids, {}
for p = 1, 4 do
  local n, at = redis.call('LLEN', q.ready[p]), 1
  pending, created[p] = pending + n, ''
  n = math.min(n, VOIDS)
  local e = n > 0 and redis.call('LINDEX', q.ready[p], -1)
  while voids > 0 and e and redis.call('HGET', q.void_entries, p .. e) do
    at = at + 1
    e = at <= n and redis.call('LINDEX', q.ready[p], -at)
  end
  if e then created[p] = string.sub(bodies(q, {id_of_ready(e)})[1] or '', 1, 8) end
end

-- look_at_key sets created[p] to the creation time of a key's next job of that priority, if that time is
-- earlier.
local function look_at_key(p, key)
  local t = first_ready(q, key, p)
  if not t then return end
  local at = string.sub(bodies(q, {id_of_ready(t)})[1] or '', 1, 8)
  if created[p] == '' or at < created[p] then created[p] = at end
end
local with_key = tonumber(m.keyed or 0)
if with_key > 0 then
  pending = pending + with_key
  local blocked = redis.call('ZRANGE', q.blocked, 0, BLOCKED - 1)
  if #blocked < BLOCKED then
    for _, key in ipairs(redis.call('ZRANGE', q.rechecked, 0, BLOCKED - 1 - #blocked)) do blocked[#blocked + 1] = key end
  end
  for p = 1, 4 do
    for _, key in ipairs(redis.call('ZRANGE', q.rings[p], 0, 1)) do
      if key ~= '' and string.byte(key) ~= 0 then look_at_key(p, key) end
    end
    for _, key in ipairs(blocked) do
      if created[p] ~= '' then break end
      look_at_key(p, key)
    end
  end
end
local waiting = redis.call('HLEN', q.held)
local active = redis.call('HLEN', q.leases) - 1 - waiting
local reply = {0, now, pending, without_guard(q.scheduled), active, without_guard(q.retry),
  redis.call('ZCARD', q.completed), redis.call('ZCARD', q.dead), redis.call('ZCARD', q.cancelled), waiting,
  redis.call('SCARD', q.suppressed), created[1], created[2], created[3], created[4]}
for _, set in ipairs({q.scheduled, q.retry, q.completed, q.dead, q.cancelled}) do reply[#reply + 1] = due(set) or -1 end
reply[#reply + 1] = redis.call('GET', q.plain) or ''
local first_rule = first.totals + tonumber(args.all)
for _, n in ipairs(redis.call('HMGET', q.record, unpack(ARGV, first.totals, first_rule - 1))) do reply[#reply + 1] = n or '' end
local policy = redis.call('HMGET', q.record, unpack(ARGV, first_rule))
for i = 1, #policy do reply[#reply + 1] = tonumber(policy[i] or 0) end
if args.with_workers == '1' then
  for _, id in ipairs(redis.call('HKEYS', q.workers)) do
    if id ~= '' then
      for _, v in ipairs({id, lease_end(q, id) or 0, redis.call('HGET', q.worker_infos, id) or '',
        tonumber(redis.call('HGET', q.lease_counts, id) or 0)}) do
        reply[#reply + 1] = v
      end
    end
  end
end
return reply
