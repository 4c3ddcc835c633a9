-- enqueue_meet: accept new jobs of one queue, each on its own, in order. Some of them are not simply
-- refused if another job holds their unique key: §39 to §41.
--
-- KEYS   record heads remembered unique by_key scheduled retry leases lapses void_entries held key_pieces
--        key_spans rings* blocked rechecked active_keys ended_keys key_policies key_rates key_heads ready*
--        token bodies*
-- ARGV   now queues buckets jobs*
--        (per job: id, body, options as for enqueue; what it does if its key is held, r to replace,
--        d to debounce, k to keep the last or x for nothing, and the latest time of a debounce in µs
--        after the holder's creation)
-- Reply  {0, now, then per job that is not simply stored: its number, what became of it, and more}
--        1 to 7 as enqueue; 8 and 9 the body of the job that would be replaced is of a newer form, or
--        malformed: its ID; 10 replaced: state and due time of the job that was, a colon, its ID, without
--        a state if it was so before; 11 stored behind another: state that it is to have and due time, a
--        colon, the other's ID
-- @include clock
-- @include stamp
-- @include open
-- @include bodies
-- @include options
-- @include locate
-- @include forget
-- @include start_behind
-- @include payload
-- @include remove_keyed
-- @include depth

local q, m = open('paused', 'max_depth', 'void', 'big', 'duplicate_span', 'bytes', 'keyed', 'flow')
if q.refused then return q.refused end
q.paused = m.paused == '1'
q.span = duplicate_span(m.duplicate_span)
read_limits(q, m.flow)
local bytes, ordered = tonumber(m.bytes or 0), q.rules and q.rules.ordered > 0
local big, depth = tonumber(m.big or 0), tonumber(m.max_depth or 0)
local room = room_of(q, depth, m.void, m.keyed)

-- weigh adds the bytes by which new or changed jobs have grown.
local function weigh(n)
  bytes = bytes + n
  redis.call('HINCRBY', q.record, 'bytes', n)
end

-- write stores a body, and remembers its size.
local function write(id, body)
  redis.call('HSET', q.bodies[bucket(q, id)], id, body)
  if #body > big then
    big = #body
    redis.call('HSET', q.record, 'big', big)
  end
end

-- postpone reschedules a pending or scheduled job, as an operation does. f is the job's index. It returns
-- the job's state and due time.
local function postpone(id, f, state, at_entry, at, due)
  if due <= now and (state == PENDING or at <= now) then return state, at end
  local head, priority = redis.call('HGET', q.heads, id), priority_of(f)
  local epoch = tonumber(head and string.match(head, '^%d+') or 0)
  if state == SCHEDULED then
    redis.call('ZREM', q.scheduled, at_entry)
  elseif f[KEY] then
    remove_keyed(q, f[KEY], priority, int(epoch), id)
  else
    redis.call('HINCRBY', q.void_entries, at_entry, 1)
    redis.call('HINCRBY', q.record, 'void', 1)
  end
  state = due > now and SCHEDULED or PENDING
  redis.call('HSET', q.heads, id, moved_head(head, epoch + 1, state, '0', 0))
  put_job(q, id, priority, epoch + 1, f[KEY], state == SCHEDULED and q.scheduled, due)
  return state, state == SCHEDULED and due
end

local function unique_key_of(body) return parse_index((index_of(body)))[UNIQUE_KEY] end

-- replace gives a job what the new job's handler would read and, for a debounce, the new due time. locate
-- has returned state, at_entry and the time at. If behind is set, the job waits behind another one: then
-- the state and time that it will have change.
local function replace(to, body, state, at_entry, at, new, what, due, latest, behind)
  local kind, content = content_of(new)
  local other = content_of(body)
  if not other or other == '' then return string.byte(body, 9) and string.byte(body, 9) > 1 and 8 or 9, to end
  if other ~= kind or unique_key_of(body) ~= unique_key_of(new) then return 3, to end -- a later job with the holder's ID
  local before = #body
  body = with_fields(body, CONTENT, content)
  write(to, body)
  weigh(#body - before)
  if what == 'd' then
    due = math.min(due, created(body) + latest)
    if behind then
      at = due > now and due or nil
      redis.call('HSET', q.held, to, (at and SCHEDULED .. int(at) or PENDING) .. ':@behind:' .. behind)
    elseif state ~= RETRY then
      state, at = postpone(to, parse_index((index_of(body))), state, at_entry, at, due)
    end
  end
  return 10, state .. (at and int(at) or '') .. ':' .. to
end

-- absorb records which job a new job replaced, and that the new job's ID is refused from now on.
local function absorb(id, into)
  local till = int(up + q.span)
  redis.call('HSET', q.remembered, id, till .. '>' .. into)
  redis.call('ZADD', q.lapses, till, 'i' .. id)
end

-- accept stores a job. If it is not simply stored, accept returns what happened.
local function accept(id, body, options, meeting)
  local priority, due, mode, ttl, unique, key = options_of(options)
  if ordered and (key == '' or priority ~= '2') then return 7, '' end
  if redis.call('HEXISTS', q.bodies[bucket(q, id)], id) == 1 then return 1, '' end
  local past = redis.call('HGET', q.remembered, id)
  if past and tonumber(string.match(past, '^%d+')) > now then
    local into = string.match(past, '>(.*)$')
    if into and string.sub(meeting, 1, 1) ~= 'x' then return 10, ':' .. into end
    return 1, ''
  end
  local what, latest = string.sub(meeting, 1, 1), tonumber(string.sub(meeting, 2))
  due = due or now
  local new, before = stamp(up) .. body, nil
  local holder, held_as, next = holder_of(unique ~= '' and redis.call('HGET', q.unique, unique))
  if holder and what ~= 'x' then
    local state, from = waits_behind(q, next, holder)
    local to = state and next or holder
    local other = redis.call('HGET', q.bodies[bucket(q, to)], to)
    if not other then return 3, holder end
    local why, more
    if state then
      why, more = replace(to, other, WAITING, nil, from, new, what, due, latest, holder)
    else
      local in_state, at_entry, time = locate(q, to, (index_of(other)), redis.call('HGET', q.heads, to), redis.call('HGET', q.leases, to))
      if in_state == ACTIVE and held_as == '0' and mode == '0' and what ~= 'r' then
        before = holder
      elseif in_state ~= PENDING and in_state ~= SCHEDULED and in_state ~= RETRY then
        return 3, holder
      else
        why, more = replace(to, other, in_state, at_entry, time, new, what, due, latest)
      end
    end
    if why == 10 then absorb(id, to) end
    if why then return why, more end
  end
  if room and room < 1 then return 2, int(depth - room) .. '/' .. int(depth) end
  local full, how = too_much(q, bytes, key)
  if full then return full, how end
  if holder and not before then return 3, holder end
  if room then room = room - 1 end

  write(id, new)
  weigh(#new)
  redis.call('HINCRBY', q.record, 'enqueued', 1)
  if key ~= '' then one_more(key) end
  if before then
    if key ~= '' then redis.call('ZADD', q.by_key, '0', key .. '\0' .. id) end
    local becomes = due > now and SCHEDULED .. int(due) or tostring(PENDING)
    redis.call('HSET', q.leases, id, priority .. '0:\n' .. index_of(new)) -- start_behind needs the key in the index
    redis.call('HSET', q.held, id, becomes .. ':@behind:' .. before)
    redis.call('HSET', q.unique, unique, '00:' .. before .. '\n' .. id)
    return 11, becomes .. ':' .. before
  end
  if unique ~= '' then
    local till = end_of(ttl)
    redis.call('HSET', q.unique, unique, mode .. till .. ':' .. id)
    if mode == '2' then redis.call('ZADD', q.lapses, till, 'u' .. unique) end
  end
  put_job(q, id, priority, 0, key ~= '' and key, due > now and q.scheduled, due)
end

local reply = {0, now}
for at = first.jobs, #ARGV, 4 do
  local why, more = accept(unpack(ARGV, at, at + 3))
  if why then
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = (at - first.jobs) / 4 + 1, why, more
  end
end
return reply
