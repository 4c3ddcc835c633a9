-- operate: apply operators' decisions, each only if the job has not changed since it was read.
--
-- KEYS   record heads leases cancels unique by_key remembered scheduled retry dead causes suppressed
--        completed cancelled lapses void_entries held key_pieces key_spans rings* blocked rechecked active_keys
--        ended_keys key_policies key_rates key_heads ready* token group_news bodies*
-- ARGV   now queues buckets channel jobs*
--        (channel: for events; cancellations go to channel .. "c"; per job: id, its state,
--        its epoch, its index, what to do, its new counts and tail, an argument.
--        What to do is: ask, to ask an active job to cancel; cancel, whose argument is the retention;
--        delete; leave, which deletes a job that is in another store now; redrive; reschedule, whose argument
--        is "n", "d" .. delay or "a" .. time; note, which writes a new tail in the same epoch, with
--        argument "1" if the job is to be suppressed; edit, whose argument is the payload; hold, whose
--        argument is the holder; unhold)
-- Reply  {0, now, then per job: its new state, or CHANGED if it is not as the operator saw it, or
--        KEY_HELD if another job has its unique key, or UNREADABLE if its body or head is; the holder}
-- @include clock
-- @include open
-- @include bodies
-- @include holder
-- @include locate
-- @include finish
-- @include bury
-- @include event
-- @include put_job
-- @include payload
-- @include options
-- @include remove_keyed
-- @include taken

local q, m = open('paused', 'watch', 'keep_completed', 'duplicate_span', 'big', 'flow')
if q.refused then return q.refused end
q.paused = m.paused == '1'
q.retain, q.span = tonumber(m.keep_completed or 0), duplicate_span(m.duplicate_span)
read_limits(q, m.flow)
local CHANGED, KEY_HELD, UNREADABLE = -1, -2, -3 -- negative, unlike states; the same as in operate.go
local channel, reply, events = args.channel, {0, now}, {}
local sets = {[SCHEDULED] = q.scheduled, [RETRY] = q.retry, [COMPLETED] = q.completed, [DEAD] = q.dead, [CANCELLED] = q.cancelled}

-- leave removes a job from the structure of its state. If its entry is in a ready list, the entry stays there
-- and is counted as void, since the cursors of listings count entries.
local function leave(id, state, entry, epoch, key)
  if state == PENDING and key then
    remove_keyed(q, key, entry, int(epoch), id)
  elseif state == PENDING then
    redis.call('HINCRBY', q.void_entries, entry, 1)
    redis.call('HINCRBY', q.record, 'void', 1)
  elseif state == WAITING then
    redis.call('HDEL', q.leases, id)
    redis.call('HDEL', q.held, id)
  else
    if state == DEAD then
      unbury(q, id)
      redis.call('SREM', q.suppressed, id)
    else
      redis.call('ZREM', sets[state], entry or id)
    end
    redis.call('ZREM', q.lapses, 'r' .. id)
  end
end

-- key_taken gives a dead job its unique key again, or returns the job that holds the key.
local function key_taken(id, index)
  local key = index[UNIQUE_KEY]
  if not key or index[UNIQUE_MODE] then return nil end
  local holder = holder_of(redis.call('HGET', q.unique, key))
  if holder then return holder end
  redis.call('HSET', q.unique, key, '0' .. end_of((index[UNIQUE_TTL] or 0) / 2) .. ':' .. id)
end

-- edit replaces a payload, and raises the epoch of a dead job.
local function edit(id, state, epoch, payload)
  local bucket_of = q.bodies[bucket(q, id)]
  local old = redis.call('HGET', bucket_of, id)
  local body, before = with_payload(old, payload), #old
  if not body then return UNREADABLE end
  redis.call('HSET', bucket_of, id, body)
  if #body > tonumber(m.big or 0) then redis.call('HSET', q.record, 'big', #body) end
  if state == DEAD then
    redis.call('HSET', q.heads, id, int(epoch + 1) .. string.match(redis.call('HGET', q.heads, id), '^%d+(,.*)$'))
  else
    redis.call('HINCRBY', q.record, 'bytes', #body - before)
  end
  return state
end

-- weigh adds a job's bytes to the count of waiting bytes (sign 1), or subtracts them (sign -1).
local function weigh(id, sign)
  local n = redis.call('HSTRLEN', q.bodies[bucket(q, id)], id)
  if n > 0 then redis.call('HINCRBY', q.record, 'bytes', sign * n) end
end

local function apply(id, state, epoch, at_entry, index, what, rest, argument, due_at)
  local key = index[KEY]
  -- Begin with a removal, so that operators can make room in a full store.
  redis.call('HDEL', q.cancels, what == 'ask' and '' or id)
  if what == 'ask' then
    local _, _, worker = holder(redis.call('HGET', q.leases, id))
    redis.call('HSET', q.cancels, id, worker)
    redis.call('SADD', q.group_news, worker)
    redis.pcall('PUBLISH', channel .. 'c', id)
    return state
  elseif what == 'delete' or what == 'leave' then
    release_unique(q, index, id)
    if not final(state) then weigh(id, -1) end
    leave(id, state, at_entry, epoch, key)
    forget(q, index, id, what == 'leave' and epoch)
    remove(q, {id})
    return 0
  elseif what == 'cancel' then
    local heads, gone = {}, {}
    weigh(id, -1)
    leave(id, state, at_entry, epoch, key)
    local head = int(epoch + 1) .. ',' .. CANCELLED .. ',' .. int(up) .. ',' .. rest
    finish(q, id, index, head, tonumber(argument), q.cancelled, heads, gone)
    remove(q, gone)
    if #heads > 0 then redis.call('HSET', q.heads, unpack(heads)) end
    redis.call('HINCRBY', q.record, 'dropped', 1)
    events[#events + 1] = CANCELLED .. id
    return CANCELLED
  elseif what == 'note' then
    local before = string.match(redis.call('HGET', q.heads, id), '^%d+,%d+,%d+,')
    if not before then return UNREADABLE end
    redis.call(argument == '1' and 'SADD' or 'SREM', q.suppressed, id)
    redis.call('HSET', q.heads, id, before .. rest)
    return state
  elseif what == 'edit' then
    return edit(id, state, epoch, argument)
  end
  local priority = priority_of(index)
  if what == 'hold' then
    leave(id, state, at_entry, epoch, key)
    if key then redis.call('ZADD', q.by_key, 0, key .. '\0' .. id) end
    redis.call('HSET', q.leases, id, priority .. int(epoch + 1) .. ':\n')
    redis.call('HSET', q.held, id, state .. (due_at and int(due_at) or '') .. ':' .. argument)
    redis.call('HSET', q.heads, id, int(epoch + 1) .. ',' .. WAITING .. ',0,' .. rest)
    return WAITING
  end
  local to, at, set = PENDING, nil, nil
  if what == 'redrive' then
    local other = key_taken(id, index)
    if other then return KEY_HELD, other end
    weigh(id, 1)
    if key then redis.call('ZREM', q.ended_keys, key .. '\0' .. id) end
  elseif what == 'unhold' then
    local from, due = string.match(redis.call('HGET', q.held, id), '^(%d)(%d*):')
    to, at = tonumber(from), tonumber(due)
    set = sets[to]
  else
    at = due_of(argument)
    if at and at > now then
      to = state == RETRY and RETRY or SCHEDULED
      set = sets[to]
    end
  end
  leave(id, state, at_entry, epoch, key)
  redis.call('HSET', q.heads, id, int(epoch + 1) .. ',' .. to .. ',0,' .. rest)
  put_job(q, id, priority, epoch + 1, key, set, at, what == 'unhold')
  return to
end

for at = first.jobs, #ARGV, 7 do
  local id, state, epoch, index, what, rest, argument = unpack(ARGV, at, at + 6)
  state, epoch = tonumber(state), tonumber(epoch)
  local head, result, other = redis.call('HGET', q.heads, id), CHANGED, nil
  if redis.call('HEXISTS', q.bodies[bucket(q, id)], id) == 1 and
    tonumber(head and string.match(head, '^%d+') or 0) == epoch then
    local now_in, at_entry, due_at = locate(q, id, index, head, redis.call('HGET', q.leases, id))
    if now_in == state then
      result, other = apply(id, state, epoch, at_entry, parse_index(index), what, rest, argument, due_at)
    end
  end
  reply[#reply + 1] = result
  reply[#reply + 1] = other or ''
end
if write_keys(q) then wake(q) end
publish(m.watch, channel, events)
return reply
