-- enqueue: accept new jobs of one queue, each on its own, in order.
--
-- KEYS   record remembered unique by_key scheduled retry lapses leases held key_pieces key_spans rings*
--        blocked rechecked active_keys ended_keys key_policies key_rates key_heads ready* token bodies*
-- ARGV   now queues buckets total ids* bodies* options*
--        (total: how many jobs; options, for each job but those of normal priority that are pending at once
--        and have no keys: its number, and priority .. when .. "\n" .. mode .. ttl .. "\n" ..
--        unique key .. "\n" .. key, where when is "n", "d" .. delay or "a" .. time)
-- Reply  {0, now, then per job refused: its number, why, holder}
--        why: 1 ID exists, 2 queue full (its depth, a slash and the limit), 3 unique key held, 5 full
--        by bytes and 6 the key is full (as 2), 7 not for an ordered queue
-- @include clock
-- @include stamp
-- @include open
-- @include read
-- @include entry
-- @include options
-- @include depth

local q, m = open('paused', 'max_depth', 'void', 'big', 'bytes', 'keyed', 'flow')
if q.refused then return q.refused end
q.paused = m.paused == '1'
read_limits(q, m.flow)
local depth, big, bytes = tonumber(m.max_depth or 0), tonumber(m.big or 0), tonumber(m.bytes or 0)

local total = tonumber(args.total)
local first_body = first.ids + total
local first_option = first_body + total
local ids, named = {unpack(ARGV, first.ids, first_body - 1)}, {}
for at = first_option, #ARGV, 2 do
  named[tonumber(ARGV[at])] = ARGV[at + 1]
end
local exists = bodies(q, ids)
local remembered = {}
if redis.call('HLEN', q.remembered) > 0 then remembered = redis.call('HMGET', q.remembered, unpack(ids)) end
local room = room_of(q, depth, m.void, m.keyed)

-- Every job is checked before the first write.
local created = stamp(up)
local reply, seen, keys = {0, now}, {}, {}
local store, ready, line, later, index = {}, {{}, {}, {}, {}}, {}, {}, {}
local held, windows = {}, {}
local longest, earliest = big, nil

local function refuse(i, why, holder)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = i, why, holder
end

-- accept_named accepts a job with options: a time, a priority, keys. Most such jobs have only a partition key.
local KEY_ALONE = 'n\n00\n\n'
local function accept_named(i, id, options)
  if not q.rules and string.sub(options, 2, 7) == KEY_ALONE and #options > 7 then
    local n = #line
    line[n + 1], line[n + 2], line[n + 3], line[n + 4] = string.sub(options, 8), string.sub(options, 1, 1), '0', id
    return true
  end
  local priority, time, mode, ttl, unique, key = options_of(options)
  local why, how = too_much(q, bytes, key)
  if why then
    refuse(i, why, how)
    return false
  end
  if unique ~= '' then
    local holder = keys[unique] or redis.call('HGET', q.unique, unique)
    if holder then
      local colon = string.find(holder, ':', 1, true)
      local till = tonumber(string.sub(holder, 2, colon - 1))
      if till == 0 or till > now then
        refuse(i, 3, string.match(holder, '[^\n]+', colon + 1))
        return false
      end
    end
    local till = end_of(ttl)
    keys[unique] = mode .. till .. ':' .. id
    held[#held + 1] = unique
    held[#held + 1] = keys[unique]
    if mode == '2' then
      windows[#windows + 1] = till
      windows[#windows + 1] = 'u' .. unique
    end
  end
  if key ~= '' then one_more(key) end
  if time and time > now then
    if key ~= '' then index[#index + 1], index[#index + 2] = 0, key .. '\0' .. id end
    later[#later + 1] = int(time)
    later[#later + 1] = entry(priority, '0', id, key ~= '' and key)
    if not earliest or time < earliest then earliest = time end
  elseif key ~= '' then
    local n = #line
    line[n + 1], line[n + 2], line[n + 3], line[n + 4] = key, priority, '0', id
  else
    local list = ready[tonumber(priority)]
    list[#list + 1] = id
  end
  return true
end

-- accept_plain accepts a job without options.
local function accept_plain(i, id)
  local why, how = too_much(q, bytes, '')
  if why then refuse(i, why, how) else ready[2][#ready[2] + 1] = id end
  return not why
end

-- orderly reports whether a job may be in an ordered queue, that is, whether it has a key and normal priority.
local function orderly(options) return options and string.find(options, '^2[^\n]*\n[^\n]*\n[^\n]*\n.') end

local stored, before, ordered = 0, bytes, q.rules and q.rules.ordered > 0
for i = 1, total do
  local id = ids[i]
  if ordered and not orderly(named[i]) then
    refuse(i, 7, '')
  elseif exists[i] or seen[id] or (remembered[i] and tonumber(string.match(remembered[i], '^%d+')) > now) then
    refuse(i, 1, '')
  elseif room and room < 1 then
    refuse(i, 2, int(depth - room) .. '/' .. int(depth))
  else
    local body, options = ARGV[first_body + i - 1], named[i]
    local ok = options and accept_named(i, id, options) or not options and accept_plain(i, id)
    if ok then
      bytes = bytes + #body + 8
      seen[id] = true
      store[stored + 1], store[stored + 2], stored = id, created .. body, stored + 2
      if #body > longest then longest = #body end
      if room then room = room - 1 end
    end
  end
end
if stored == 0 then return reply end

-- From here on the script writes.
for b, list in pairs(by_bucket(q, store, 1)) do redis.call('HSET', q.bodies[b], unpack(list)) end
if longest > big then redis.call('HSET', q.record, 'big', longest) end
redis.call('HINCRBY', q.record, 'bytes', bytes - before)
redis.call('HINCRBY', q.record, 'enqueued', stored / 2)
if #held > 0 then redis.call('HSET', q.unique, unpack(held)) end
if #windows > 0 then redis.call('ZADD', q.lapses, unpack(windows)) end
if #index > 0 then redis.call('ZADD', q.by_key, unpack(index)) end
local woken = add_keyed(q, line)
if #later > 0 then
  local before = next_due(q)
  woken = woken or not before or earliest < before
  add_guarded(q.scheduled, later)
end
for p = 1, 4 do
  if #ready[p] > 0 then
    redis.call('LPUSH', q.ready[p], unpack(ready[p]))
    woken = true
  end
end
if woken then wake(q) end
return reply
