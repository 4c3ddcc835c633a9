-- examine_record: examine a queue's record and the types of its keys, or its wake token.
--
-- KEYS   record plain leases heads lease_ends worker_infos lease_counts workers ended_workers
--        unreclaimed cancels unique remembered by_key scheduled retry dead causes suppressed completed
--        cancelled lapses void_entries held key_pieces key_spans rings* blocked rechecked active_keys ended_keys
--        key_policies key_rates key_heads ready* token idle_hint bodies*
-- ARGV   now queues buckets part cursor most repair before
--        (part: "record" or "token"; most: records; repair: 1 to repair; before, for "token": the
--        element of told in the answer before)
-- Reply  {0, now, cursor, records, told, then per finding: code, ID, what is
--        wrong, 1 if repaired, why not}; told is, for "record": "type" when the
--        queue cannot be examined any further; for "token", if that is missing: the
--        next entry and key of each priority, in one text
-- @include clock
-- @include open
-- @include examine
-- @include wake
-- @include digest
-- @include sums

local q, m = open('paused', 'max_depth', 'void', 'flow')
if q.refused then return q.refused end
q.paused = m.paused == '1'
read_limits(q, m.flow)

if part == 'token' then
  local ready, next_ones = -tonumber(m.void or 0), {}
  for p = 1, 4 do
    local first_key, second_key = unpack(redis.call('ZRANGE', q.rings[p], 0, 1))
    if first_key == '' then first_key = second_key end
    if is_guard(first_key) then first_key = '' end
    ready = ready + redis.call('LLEN', q.ready[p]) + (first_key ~= '' and 1 or 0)
    next_ones[p] = (redis.call('LINDEX', q.ready[p], -1) or '') .. first_key
  end
  if ready <= 0 or q.paused or redis.call('LLEN', q.token) > 0 or limited(q) then return answer('') end
  told[1] = table.concat(next_ones, '\n')
  if told[1] == args.before then
    found('wake-token-missing', '', int(ready) .. ' jobs can be claimed, and there is no wake token', function() wake(q) end)
  end
  return answer('')
end

local kinds = {
  {'m', q.record, 'hash'}, {'p', q.plain, 'string'}, {'t', q.token, 'list'}, {'tq', q.idle_hint, 'string'},
  {'h', q.heads, 'hash'}, {'v', q.void_entries, 'hash'},
  {'a', q.leases, 'hash'}, {'c', q.cancels, 'hash'}, {'o', q.held, 'hash'}, {'z', q.scheduled, 'zset'}, {'y', q.retry, 'zset'},
  {'d', q.dead, 'zset'}, {'dc', q.causes, 'zset'}, {'ds', q.suppressed, 'set'}, {'f', q.completed, 'zset'}, {'g', q.cancelled, 'zset'},
  {'u', q.unique, 'hash'}, {'ids', q.remembered, 'hash'}, {'i', q.by_key, 'zset'}, {'l', q.lapses, 'zset'},
  {'s', q.workers, 'hash'}, {'wi', q.worker_infos, 'hash'}, {'w', q.lease_ends, 'zset'}, {'k', q.lease_counts, 'hash'},
  {'x', q.ended_workers, 'hash'}, {'n', q.unreclaimed, 'hash'}, {'kl', q.key_pieces, 'hash'}, {'ks', q.key_spans, 'hash'},
  {'kb', q.blocked, 'zset'}, {'kd', q.rechecked, 'zset'}, {'ka', q.active_keys, 'zset'}, {'ke', q.ended_keys, 'zset'},
  {'kp', q.key_policies, 'hash'}, {'kr', q.key_rates, 'hash'}, {'kh', q.key_heads, 'hash'},
}
for p = 1, 4 do
  kinds[#kinds + 1] = {'r' .. p, q.ready[p], 'list'}
  kinds[#kinds + 1] = {'k' .. p, q.rings[p], 'zset'}
end
for b = 1, q.buckets do kinds[#kinds + 1] = {'b' .. (b - 1), q.bodies[b], 'hash'} end
for _, kind in ipairs(kinds) do
  local name, key, want = unpack(kind)
  local is = redis.call('TYPE', key).ok
  if is ~= want and is ~= 'none' then
    told[1] = 'type'
    found('key-of-wrong-type', name, 'the key ' .. name .. ' is a ' .. is .. ', not a ' .. want, function()
      return 'what it holds is not known'
    end)
  elseif redis.call('PTTL', key) >= 0 then
    found('key-expires', name, 'the key ' .. name .. ' has an expiry', function() redis.call('PERSIST', key) end)
  end
end
if told[1] then return answer('') end

local function guarded(name, key, set)
  if set and redis.call('ZSCORE', key, GUARD) or not set and redis.call('HEXISTS', key, '') == 1 then return end
  found('guard-missing', name, 'the key ' .. name .. ' lacks its guard', function()
    if set then redis.call('ZADD', key, '+inf', GUARD) else redis.call('HSET', key, '', GUARD) end
  end)
end
local always = {{'a', q.leases}, {'h', q.heads}, {'k', q.lease_counts}, {'s', q.workers}, {'kl', q.key_pieces}, {'ks', q.key_spans}}
for _, kind in ipairs(always) do
  guarded(kind[1], kind[2])
end
guarded('w', q.lease_ends, true)
local while_used = {{'z', q.scheduled}, {'y', q.retry}}
for p = 1, 4 do while_used[p + 2] = {'k' .. p, q.rings[p]} end
for _, kind in ipairs(while_used) do
  if redis.call('EXISTS', kind[2]) == 1 then guarded(kind[1], kind[2], true) end
end

local flow = digest(q)
if flow ~= m.flow then
  local what = 'its limits are ' .. (m.flow or 'none') .. ' for claims, and ' .. (flow or 'none') .. ' by its policy'
  found('rules-differ', 'flow', what, function()
    write_digest(q, flow)
  end)
end
q.rules = nil
read_limits(q, flow)
local is_plain, flag = plain(q, tonumber(m.max_depth or 0)), 'p' .. (q.buckets > 1 and q.buckets or '')
local sum = redis.call('GET', q.plain)
if is_plain ~= (sum and string.find(sum, '^%d+$') ~= nil) then
  local what = is_plain and (sum and 'no number' or 'missing') or 'there, and the queue is not plain'
  found('plain-flag-differs', flag, 'the key ' .. flag .. ' is ' .. what, function()
    if sum and not string.find(sum, '^%d+$') then redis.call('DEL', q.plain) end
    set_plain(is_plain)
  end)
end

local HOUR = 3600000000
local first_lapse = redis.call('ZRANGE', q.lapses, 0, 0, 'WITHSCORES')
if first_lapse[1] and tonumber(first_lapse[2]) < now - HOUR then
  found('prune-behind', '', 'something lapsed ' .. int((now - tonumber(first_lapse[2])) / HOUR) .. ' hours ago and is still there',
    function() return 'servers prune in small steps' end)
end
return answer('')
