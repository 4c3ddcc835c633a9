-- restore: accept jobs of one queue from another store, each on its own, in order.
--
-- KEYS   record heads remembered unique by_key scheduled retry dead causes suppressed completed cancelled
--        lapses leases held key_pieces key_spans rings* blocked rechecked active_keys ended_keys key_policies
--        key_rates key_heads ready* token bodies*
-- ARGV   now queues buckets jobs*
--        (per job: id, body, options as for enqueue, with an empty unique key if the job takes
--        none; past, which is state "," epoch "," creation time "," end "," retention, in µs and 0
--        for none, "," 1 if it is suppressed; counts and tail of its head)
-- Reply  {0, now, then per job refused: its number, why, holder}
--        why: 1 ID exists, 2 queue full, 3 unique key held, 4 the job is held, 5 full by bytes, 6
--        the key is full
-- @include clock
-- @include stamp
-- @include open
-- @include bodies
-- @include options
-- @include bury
-- @include head
-- @include ready_entry
-- @include entry
-- @include depth
-- @include taken

local q, m = open('paused', 'max_depth', 'void', 'big', 'keep_completed', 'bytes', 'keyed', 'flow')
if q.refused then return q.refused end
q.paused = m.paused == '1'
read_limits(q, m.flow)
local bytes = tonumber(m.bytes or 0)
local big, retain = tonumber(m.big or 0), tonumber(m.keep_completed or 0)
local depth = tonumber(m.max_depth or 0)
local room = room_of(q, depth, m.void, m.keyed)

-- remembered reports whether an ID is refused for a job of this epoch. A job that was moved to another store,
-- which forget recorded, may come back with a higher epoch.
local function remembered(id, epoch)
  local till = redis.call('HGET', q.remembered, id)
  if not till or tonumber(string.match(till, '^%d+')) <= now then return false end
  local left = string.match(till, '^%d+%.0+(%d*)$')
  return not left or epoch <= tonumber(left ~= '' and left or 0)
end

local next_before, earliest, pushed = next_due(q), nil, false

-- accept stores a job, or returns why it is refused.
local function accept(id, body, options, past, rest)
  local where = q.bodies[bucket(q, id)]
  local state, epoch, created, ended, keep, suppressed = string.match(past, '^(%d+),(%d+),(%d+),(%d+),(%d+),(%d)$')
  state, epoch, ended, keep = tonumber(state), tonumber(epoch), tonumber(ended), tonumber(keep)
  local holder = redis.call('HGET', q.held, id)
  if holder then return 4, string.sub(holder, string.find(holder, ':', 1, true) + 1) end
  if redis.call('HEXISTS', where, id) == 1 or remembered(id, epoch) then return 1, '' end
  if room and room < 1 and (state == PENDING or state == SCHEDULED) then
    return 2, int(depth - room) .. '/' .. int(depth)
  end
  local priority, time, mode, ttl, unique, key = options_of(options)
  if state == PENDING or state == SCHEDULED then
    local why, how = too_much(q, bytes, key)
    if why then return why, how end
  end
  local other = holder_of(unique ~= '' and redis.call('HGET', q.unique, unique))
  if other then return 3, other end
  local over = final(state)
  if over then
    if ended == 0 then ended = up end
    if keep == 0 then keep = retain end
    if state ~= DEAD and ended + keep <= now then return nil end -- its retention is over
  else
    ended = 0
  end

  local stored = stamp(created == '0' and up or tonumber(created)) .. body
  redis.call('HSET', where, id, stored)
  if unique ~= '' then
    local till = end_of(ttl)
    redis.call('HSET', q.unique, unique, mode .. till .. ':' .. id)
    if mode == '2' then redis.call('ZADD', q.lapses, till, 'u' .. unique) end
  end
  if not over then
    bytes = bytes + #body + 8
    one_more(key)
  end
  time = time or now
  if state == PENDING or state == SCHEDULED then
    state = time > now and SCHEDULED or PENDING
    if room then room = room - 1 end
  end
  if key ~= '' and state ~= PENDING then redis.call('ZADD', over and q.ended_keys or q.by_key, '0', key .. '\0' .. id) end
  local head = int(epoch + 1) .. ',' .. state .. ',' .. int(ended) .. ',' .. rest
  redis.call('HSET', q.heads, id, head)
  big = math.max(big, #body, #head)
  if state == PENDING and key ~= '' then
    pushed = add_keyed(q, {key, priority, int(epoch + 1), id}) or pushed
  elseif state == PENDING then
    redis.call('LPUSH', q.ready[tonumber(priority)], ready_entry(int(epoch + 1), id))
    pushed = true
  elseif state == SCHEDULED or state == RETRY then
    add_guarded(state == RETRY and q.retry or q.scheduled, {int(time), entry(priority, int(epoch + 1), id, key ~= '' and key)})
    if not earliest or time < earliest then earliest = time end
  elseif state == DEAD then
    bury(q, id, ended, stored, head)
    if suppressed == '1' then redis.call('SADD', q.suppressed, id) end
  else
    redis.call('ZADD', state == COMPLETED and q.completed or q.cancelled, int(ended), id)
    redis.call('ZADD', q.lapses, int(ended + keep), 'r' .. id)
  end
end

local reply = {0, now}
for at = first.jobs, #ARGV, 5 do
  local why, holder = accept(unpack(ARGV, at, at + 4))
  if why then
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = (at - first.jobs) / 5 + 1, why, holder
  end
end
if big > tonumber(m.big or 0) then redis.call('HSET', q.record, 'big', big) end
if bytes > tonumber(m.bytes or 0) then redis.call('HINCRBY', q.record, 'bytes', bytes - tonumber(m.bytes or 0)) end
if pushed or earliest and (not next_before or earliest < next_before) then wake(q) end
return reply
