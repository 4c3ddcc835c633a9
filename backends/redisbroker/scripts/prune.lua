-- prune: remove records whose retention is over, and everything else that has lapsed.
--
-- KEYS   record plain unreclaimed heads ended_workers unique by_key remembered scheduled retry dead causes suppressed
--        completed cancelled lapses void_entries leases held key_pieces key_spans rings* blocked rechecked active_keys
--        ended_keys key_policies key_rates key_heads ready* token bodies*
-- ARGV   now queues buckets most   (most: records examined)
-- Reply  {0, now, completed, cancelled, dead, others removed, 1 when more is left}
-- @include clock
-- @include open
-- @include fit
-- @include read
-- @include forget
-- @include bury
-- @include head
-- @include sums

local q, m = open('duplicate_span', 'keep_completed_count', 'keep_dead', 'keep_dead_count', 'void', 'swept', 'paused', 'flow')
if q.refused then return q.refused end
q.span, q.paused = duplicate_span(m.duplicate_span), m.paused == '1'
read_limits(q, m.flow)
local most = tonumber(args.most)
local budget = most
local removed, records = {[COMPLETED] = 0, [CANCELLED] = 0, [DEAD] = 0, other = 0}, {}

local function drop(set, state, id)
  if state == DEAD then unbury(q, id) else redis.call('ZREM', set, id) end
  redis.call('ZREM', q.lapses, 'r' .. id)
  if state == DEAD then redis.call('SREM', q.suppressed, id) end
  records[#records + 1] = id
  removed[state] = removed[state] + 1
end

-- lapsed handles an entry of lapses: a kind, and a name.
local function lapsed(entry)
  local kind, name = string.sub(entry, 1, 1), string.sub(entry, 2)
  if kind == 'r' then
    if redis.call('ZSCORE', q.completed, name) then
      drop(q.completed, COMPLETED, name)
    elseif redis.call('ZSCORE', q.cancelled, name) then
      drop(q.cancelled, CANCELLED, name)
    end
  elseif kind == 'i' then
    redis.call('HDEL', q.remembered, name)
    removed.other = removed.other + 1
  elseif kind == 'u' then
    local held = redis.call('HGET', q.unique, name)
    if held and string.sub(held, 1, 1) == '2' and tonumber(string.match(held, '^%d(%d+):')) <= now then
      redis.call('HDEL', q.unique, name)
      removed.other = removed.other + 1
    end
  elseif redis.call('HEXISTS', q.unreclaimed, name) == 1 then
    redis.call('ZADD', q.lapses, int(up + 86400000000), entry) -- its jobs wait for a reclaim, so look again in a day
  else
    redis.call('HDEL', q.ended_workers, name)
    removed.other = removed.other + 1
  end
end

local entries = redis.call('ZRANGE', q.lapses, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, budget)
local n = fit(q, entries, 2)
if n > 0 then redis.call('ZREM', q.lapses, unpack(entries, 1, n)) end
for i = 1, n do lapsed(entries[i]) end
budget = budget - n

-- over returns by how many jobs a count exceeds a cap, up to the budget; 0 without a cap.
local function over(count, cap) return cap > 0 and math.min(budget, count - cap) or 0 end

local cap = tonumber(m.keep_completed_count or 0)
local completed, cancelled = redis.call('ZCARD', q.completed), redis.call('ZCARD', q.cancelled)
local excess = over(completed + cancelled, cap)
if excess > 0 then
  local f = redis.call('ZRANGE', q.completed, 0, excess - 1, 'WITHSCORES')
  local g = redis.call('ZRANGE', q.cancelled, 0, excess - 1, 'WITHSCORES')
  local i, j, first_ones, of_f = 1, 1, {}, {}
  for k = 1, excess do
    of_f[k] = f[i] and (not g[j] or tonumber(f[i + 1]) <= tonumber(g[j + 1]))
    if of_f[k] then
      first_ones[k], i = f[i], i + 2
    else
      first_ones[k], j = g[j], j + 2
    end
  end
  n = fit(q, first_ones)
  for k = 1, n do
    if of_f[k] then drop(q.completed, COMPLETED, first_ones[k]) else drop(q.cancelled, CANCELLED, first_ones[k]) end
  end
  budget = budget - n
end

-- drop_dead removes as many of these dead jobs as can be read.
local function drop_dead(ids)
  n = fit(q, ids)
  for i = 1, n do drop(q.dead, DEAD, ids[i]) end
  budget = budget - n
end

local age = tonumber(m.keep_dead or 0)
if age > 0 and budget > 0 then
  drop_dead(redis.call('ZRANGE', q.dead, '-inf', int(now - age), 'BYSCORE', 'LIMIT', 0, budget))
end
excess = over(redis.call('ZCARD', q.dead), tonumber(m.keep_dead_count or 0))
if excess > 0 then drop_dead(redis.call('ZRANGE', q.dead, 0, excess - 1)) end

if #records > 0 then
  for i, body in ipairs(bodies(q, records)) do
    if body then forget(q, parse_index((index_of(body))), records[i]) end
  end
  remove(q, records)
  if write_keys(q) then wake(q) end
end

-- sweep_rates removes counts of rates that no longer matter, because the key has no rate, or has started no job
-- for so long that its whole burst is free. It looks again at keys that are blocked for longer than their rate says,
-- since the clock was set back.
local RATES = 100
local function sweep_rates()
  local scan = redis.call('HSCAN', q.key_rates, redis.call('HGET', q.record, 'rates_swept') or '0', 'COUNT', RATES)
  local keys, old, late = {}, {}, {}
  for i = 1, #scan[2], 2 do keys[#keys + 1] = scan[2][i] end
  local own, blocked = own_rules(q, keys), #keys > 0 and redis.call('ZMSCORE', q.blocked, unpack(keys))
  for i, key in ipairs(keys) do
    local bucket_of = read_bucket(scan[2][2 * i])
    local rate = q.rules and key_rate(q, own[i])
    local free, till
    if rate then free, till = bucket_free(bucket_of, unpack(rate)) end
    if not rate or free > rate[3] then old[#old + 1] = key end
    local at = rate and tonumber(blocked[i] or nil)
    if at and at < FAR and at > (till or now) then late[#late + 1] = key end
  end
  if #old > 0 then redis.call('HDEL', q.key_rates, unpack(old)) end
  if free_keys(q, late) then wake(q) end
  redis.call('HDEL', q.record, 'rates_swept')
  if scan[1] ~= '0' then redis.call('HSET', q.record, 'rates_swept', scan[1]) end
end
if redis.call('EXISTS', q.key_rates) == 1 then sweep_rates() end

-- sweep removes void entries from the ready lists, if there are more than half as many as valid entries. Each
-- call sweeps a slice of one list. It begins at the end from which claims take, and goes no further than
-- LONG_WALK, since the middle of a list is slow. sweep reports whether more calls may remove more.
local LONG_WALK = 100000
local VOID = '\2' -- replaces the entries to remove; no entry has this text
local function sweep()
  local void, lengths, all = tonumber(m.void or 0), {}, 0
  for p = 1, 4 do
    lengths[p] = redis.call('LLEN', q.ready[p])
    all = all + lengths[p]
  end
  if void <= (all - void) / 2 + 1000 then return false end
  redis.call('HDEL', q.record, 'swept') -- begin with a removal, so that a full store can be swept, too
  local p, passed = string.match(m.swept or '1,0', '^(%d),(%d+)$')
  p, passed = tonumber(p), tonumber(passed)
  while p <= 4 and (passed >= lengths[p] or passed >= LONG_WALK) do p, passed = p + 1, 0 end
  if p > 4 then return false end -- the next call begins with the first list
  local entries, fields, left, gone = redis.call('LRANGE', q.ready[p], int(-passed - most), int(-passed - 1)), {}, {}, 0
  for i, t in ipairs(entries) do fields[i] = p .. t end
  local counts = redis.call('HMGET', q.void_entries, unpack(fields))
  for i = #entries, 1, -1 do
    local field = fields[i]
    local times = left[field] or tonumber(counts[i] or 0)
    if times > 0 then
      left[field] = times - 1
      if times == 1 then redis.call('HDEL', q.void_entries, field) else redis.call('HINCRBY', q.void_entries, field, -1) end
      redis.call('LSET', q.ready[p], int(-passed - 1 - (#entries - i)), VOID)
      gone = gone + 1
    end
  end
  if gone > 0 then
    redis.call('LREM', q.ready[p], -gone, VOID)
    redis.call('HINCRBY', q.record, 'void', -gone)
  end
  redis.call('HSET', q.record, 'swept', p .. ',' .. int(passed + #entries - gone))
  return true
end

-- reset_bytes sets the count of waiting bytes to 0 if no job waits, since repairs do not subtract the bytes
-- that they remove.
local function reset_bytes()
  local waiting = tonumber(redis.call('HGET', q.record, 'bytes') or 0) + (tonumber(redis.call('GET', q.plain) or 0) or 0) % JOB
  if waiting == 0 or without_guard(q.scheduled) + without_guard(q.retry) > 0 or
    redis.call('EXISTS', q.ready[1], q.ready[2], q.ready[3], q.ready[4], q.held) > 0 or any_keyed(q) then return end
  redis.call('HDEL', q.record, '') -- begin with a removal, so that a full store can be pruned, too
  add_plain()
  redis.call('HDEL', q.record, 'bytes')
end
reset_bytes()

-- Remove guards without other members, so that an empty queue takes little memory.
for _, set in ipairs({q.scheduled, q.retry, q.rings[1], q.rings[2], q.rings[3], q.rings[4]}) do
  if redis.call('ZCARD', set) == 1 then redis.call('ZREM', set, GUARD) end
end

local swept = budget > 0 and room > 0 and sweep()
local more = budget <= 0 or room <= 0 or swept
return {0, now, removed[COMPLETED], removed[CANCELLED], removed[DEAD], removed.other, more and 1 or 0}
