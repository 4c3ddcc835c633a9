-- @include rings

-- Turns of keys, for claim.lua. The ring of a priority has the keys that may start a job of it, by
-- their pass. The key with the least pass has the next turn, which raises its pass by STRIDE, or by
-- less if the key has a weight. Jobs without a key, which are in the ready list, take turns as
-- another key, whose name is empty.
local UNKEYED = ''
local LOOKS = 1000 -- keys looked at in one call beyond the jobs that it leases
local HDEL_MOST = 4000 -- fields deleted in one command; Lua passes at most 8,000 values
local MOVED = 500  -- keys that a claim moves back to the rings, of each kind, at most
local looks = 0

-- unkeyed_left returns how many jobs without a key are pending.
local function unkeyed_left(q, p)
  local late = q.promoted and q.promoted[p]
  return (q.drained[p] and 0 or redis.call('LLEN', q.ready[p])) + (late and #late.ids - late.taken or 0)
end

-- pop_unkeyed removes the ready entries of up to n of them, and returns their IDs and epochs.
local function pop_unkeyed(q, p, n)
  local ids, epochs = {}, {}
  while #ids < n and not q.drained[p] and dropped < VOIDS do
    local most = n - #ids
    local entries = redis.call('RPOP', q.ready[p], most) or {}
    if #entries < most then q.drained[p] = true end
    if #entries > 0 and q.void > q.dropped then entries = valid(q, p, entries) end
    local of = epochs_of(entries) or {}
    for i, id in ipairs(entries) do ids[#ids + 1], epochs[#ids + 1] = id, of[i] or false end
  end
  local late = q.promoted and q.promoted[p]
  while #ids < n and late and late.taken < #late.ids do
    late.taken = late.taken + 1
    ids[#ids + 1], epochs[#ids + 1] = late.ids[late.taken], late.epochs[late.taken]
  end
  return ids, epochs
end

-- unblock moves keys back to the rings: those whose time has come and, if recheck is set, those that a
-- change of the policy may have freed. Their next turn shows whether they may start a job.
local function unblock(q, recheck)
  local due_keys = redis.call('ZRANGE', q.blocked, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, MOVED)
  q.unsettled = #due_keys == MOVED
  if #due_keys > 0 then redis.call('ZREM', q.blocked, unpack(due_keys)) end
  local room = recheck and MOVED or 0
  while room > 0 do
    local more = redis.call('ZRANGE', q.rechecked, 0, room - 1)
    if #more > 0 then redis.call('ZREM', q.rechecked, unpack(more)) end
    for _, key in ipairs(more) do due_keys[#due_keys + 1] = key end
    room = room - #more
    if not recheck_again(q) then break end
  end
  local own = own_rules(q, due_keys)
  for i, key in ipairs(due_keys) do enter_rings(q, key, own[i]) end
end

-- Takers of turns are numbers, and what is known of them is in lists, since a table for each takes half the
-- time of a claim: keys, pass, fields in key_spans, spans of their entries, texts in which their next entry
-- begins at a byte (at), rooms for what they may start, own policies, how many turns they got (turns), and
-- why they get no more (state): they have no entry; they may start nothing; they wait for the head of their
-- key, which has another priority.
local EMPTY, BLOCKED, WAITS = 1, 2, 3

-- insert_by_pass adds a taker to an order of n, at an index or later, behind those whose pass is not higher.
-- That is mostly the end, since a key that had a turn comes behind all others.
local function insert_by_pass(order, n, from, taker, pass)
  local low, high, own = from, n + 1, pass[taker]
  if high <= from or pass[order[n]] <= own then
    order[high] = taker
    return
  end
  while low < high do
    local middle = math.floor((low + high) / 2)
    if pass[order[middle]] <= own then low = middle + 1 else high = middle end
  end
  table.insert(order, low, taker)
end

-- takers_of returns the takers of turns with the least passes, their order, and the pass up to which they
-- may get turns, since then other keys come; nil if there are no keys. It takes at least n keys if there are
-- that many, and the jobs without a key.
local function takers_of(q, p, n)
  local ring, prefix = redis.call('ZRANGE', q.rings[p], 0, n, 'WITHSCORES'), tostring(p)
  local count, unkeyed = #ring / 2, nil
  if is_guard(ring[2 * count - 1]) then count = count - 1 end
  local keys, pass, fields, order = {}, {}, {}, {}
  for i = 1, count do
    local key = ring[2 * i - 1]
    keys[i], pass[i], fields[i], order[i] = key, ring[2 * i] + 0, prefix .. key, i
    if key == UNKEYED then unkeyed = i end
  end
  if count <= (unkeyed and 1 or 0) then return nil end
  local bound, waiting = count > n and pass[n + 1] or math.huge, unkeyed_left(q, p)
  if waiting > 0 and not unkeyed then
    unkeyed, count = count + 1, count + 1
    keys[count], fields[count] = UNKEYED, prefix
    pass[count] = tonumber(redis.call('ZSCORE', q.rings[p], UNKEYED) or pass[1] + STRIDE - 1)
    insert_by_pass(order, count - 1, 1, count, pass)
  end
  local own, texts = own_rules(q, keys), redis.call('HMGET', q.key_spans, unpack(fields))
  local rooms, spans, at, turns, state, known = rooms_of(q, keys, own), {}, {}, {}, {}, {}
  for i = 1, count do
    local text = texts[i] or ''
    local line_end = find(text, '\n', 1, true) or 0
    local numbers = sub(text, 1, line_end)
    local span = known[numbers] or span_of(numbers)
    known[numbers] = span -- shared, since many keys have the same numbers
    spans[i], texts[i], at[i], turns[i], state[i] = span, text, line_end + 1, 0, false
  end
  if unkeyed then spans[unkeyed], rooms[unkeyed], own[unkeyed] = {n = waiting}, nil, nil end
  local t = {count = count, unkeyed = unkeyed, keys = keys, pass = pass, fields = fields, own = own, rooms = rooms, spans = spans,
    texts = texts, at = at, turns = turns, state = state}
  return t, order, bound
end

-- next_entry returns the next ready entry of a key, or nil.
local function next_entry(q, t, taker)
  local line_end = find(t.texts[taker], '\n', t.at[taker], true)
  while not line_end do
    local span = t.spans[taker]
    local head, tail = ends_of(span)
    if head >= tail then return nil end
    t.spans[taker] = {n = span.n, head = head + 1, tail = tail, from = span.from or head} -- a new one, as others are shared
    t.texts[taker] = redis.call('HGET', q.key_pieces, piece_field(t.fields[taker], head + 1)) or ''
    t.at[taker] = 1
    line_end = find(t.texts[taker], '\n', 1, true)
  end
  local entry = sub(t.texts[taker], t.at[taker], line_end - 1)
  t.at[taker] = line_end + 1
  return entry
end

-- give_turns gives up to n turns to takers in an order, up to a pass. It returns the taker of each; its ready
-- entry, or false for a job without a key; and whether all entries are just IDs.
local function give_turns(q, n, t, order, bound)
  local pass, takers, entries, taken, plain_ones, i, last = t.pass, {}, {}, 0, true, 1, #order
  while taken < n and i <= last and looks < LOOKS do
    local taker, before = order[i], taken
    local own_pass, allowed = pass[taker], t.rooms[taker] or ENDLESS
    if own_pass > bound then break end
    i = i + 1
    local stride = t.own[taker] and stride_of(t.own[taker]) or STRIDE
    local room, left, head, state = allowed.room, t.spans[taker].n - t.turns[taker], allowed.head, false
    local rival = order[i] and pass[order[i]] or math.huge -- until then the taker has the next turn, too
    while room > 0 and left > 0 do
      local entry = false
      if taker == t.unkeyed then
        plain_ones = false
      else
        entry = next_entry(q, t, taker)
        if not entry then left = 0 break end
        if byte(entry) == 1 then plain_ones = false end
        if head and id_of_ready(entry) ~= head then
          state, own_pass = WAITS, own_pass + stride
          break
        end
      end
      taken = taken + 1
      takers[taken], entries[taken] = taker, entry
      room, left, own_pass = room - 1, left - 1, own_pass + stride
      if taken == n or own_pass >= rival or own_pass > bound then break end
    end
    if taken == before then looks = looks + 1 end
    pass[taker], t.turns[taker], allowed.room = own_pass, t.turns[taker] + taken - before, room
    if state == WAITS then
      t.state[taker] = WAITS
    elseif room <= 0 then
      t.state[taker] = BLOCKED
    elseif left <= 0 then
      t.state[taker] = EMPTY
    else
      insert_by_pass(order, last, i, taker, pass)
      last = last + 1
    end
  end
  return takers, entries, plain_ones
end

-- blocked_until returns when a key without room may start a job again after some turns, or nil if not time
-- alone decides.
local function blocked_until(allowed, turns)
  if allowed.bucket and (not allowed.slots or allowed.slots > turns) and not (allowed.why and allowed.why ~= RATE) then
    local _, till = bucket_free(allowed.bucket, unpack(allowed.rate))
    return till
  end
  return nil
end

-- block_keys removes keys that may start nothing from all rings, and adds those with jobs left to the
-- blocked keys.
local function block_keys(q, names, tills)
  if #names == 0 then return end
  for p = 1, 4 do redis.call('ZREM', q.rings[p], unpack(names)) end
  local blocked = {}
  for i, key in ipairs(names) do
    if select(2, pending_of(q, key)) > 0 then
      blocked[#blocked + 1] = int(tills[i] or FAR)
      blocked[#blocked + 1] = key
    end
  end
  if #blocked > 0 then redis.call('ZADD', q.blocked, unpack(blocked)) end
end

-- write_takers writes the new passes and rates of the takers, and removes or blocks the keys that may not
-- stay in the ring. A key that lost a job, which did not exist, holds less than was thought: it is not
-- blocked. write_takers reports whether any left the ring. The field without a name is the guard of key_rates.
local function write_takers(q, p, t, lost)
  local empty, stay, rates, blocked, tills, n, r, pass, text = {}, {}, {'', GUARD}, {}, {}, 0, 2, nil, nil
  local at, used, bucket_of_last
  for i = 1, t.count do
    local key, state, allowed, turns = t.keys[i], t.state[i], t.rooms[i] or ENDLESS, t.turns[i]
    if allowed.bucket and turns > 0 then
      local b = allowed.bucket
      b[2] = b[2] + turns
      if b[1] ~= at or b[2] ~= used then -- neighbours mostly have the same
        at, used, bucket_of_last = b[1], b[2], bucket_text(b)
      end
      rates[r + 1], rates[r + 2], r = key, bucket_of_last, r + 2
    end
    if state == EMPTY then
      empty[#empty + 1] = key
    elseif state == BLOCKED and not lost[i] then
      blocked[#blocked + 1], tills[#blocked + 1] = key, blocked_until(allowed, turns) or FAR
    elseif turns > 0 or state or i == t.unkeyed then
      if t.pass[i] ~= pass then -- here, too
        pass = t.pass[i]
        text = int(pass)
      end
      stay[n + 1], stay[n + 2], n = text, key, n + 2
    end
  end
  if #empty > 0 then redis.call('ZREM', q.rings[p], unpack(empty)) end
  block_keys(q, blocked, tills)
  if n > 0 then redis.call('ZADD', q.rings[p], unpack(stay)) end
  if r > 2 then redis.call('HSET', q.key_rates, unpack(rates)) end
  return #empty > 0 or #blocked > 0
end

-- remove_taken removes the ready entries of the turns that were given.
local function remove_taken(q, p, t)
  local n, over, ended, spans, keys, s = 0, {'-'}, {}, {}, {}, 0
  for i = 1, t.count do
    local turns = t.turns[i]
    if turns > 0 and i ~= t.unkeyed then
      local span, field = t.spans[i], t.fields[i]
      local left, upto = span.n - turns, span.from and span.head -- earlier pieces are used up, that one becomes the first
      n = n + turns
      if left <= 0 then
        ended[#ended + 1], keys[#keys + 1] = field, t.keys[i]
        if span.from or span.head ~= span.tail then upto = tonumber(span.tail) end
      else
        spans[s + 1], spans[s + 2], s = field, span_text(left, span.head, span.tail, sub(t.texts[i], t.at[i])), s + 2
      end
      if upto then
        for number = (span.from or span.head) + 1, upto do over[#over + 1] = piece_field(field, number) end
      end
    end
  end
  for at = 1, #over, HDEL_MOST do -- first, and even if nothing was taken, so that a full server lets the claim go on
    redis.call('HDEL', q.key_pieces, unpack(over, at, math.min(at + HDEL_MOST - 1, #over)))
  end
  if n == 0 then return end
  if #ended > 0 then
    redis.call('HDEL', q.key_spans, unpack(ended))
    unlist_keys(q, keys, p)
  end
  if s > 0 then redis.call('HSET', q.key_spans, unpack(spans)) end
  redis.call('HINCRBY', q.record, 'keyed', -n)
end

-- add_active adds active jobs with keys. Many are added together with a guard, which takes the set out of
-- the compact form, in which each look-up is a scan, and is removed again.
local MANY = 32
local function add_active(q, members)
  if #members < MANY then
    redis.call('ZADD', q.active_keys, unpack(members))
  else
    redis.call('ZADD', q.active_keys, 0, GUARD, unpack(members))
    redis.call('ZREM', q.active_keys, GUARD)
  end
end

-- jobs_of returns the IDs and epochs of the turns that were given, and the taker of each. Among them are
-- jobs without a key, of which there may be fewer than turns.
local function jobs_of(q, p, takers, entries)
  local unkeyed_turns = 0
  for i = 1, #takers do
    if not entries[i] then unkeyed_turns = unkeyed_turns + 1 end
  end
  local unkeyed, unkeyed_epochs = pop_unkeyed(q, p, unkeyed_turns)
  local ids, epochs, of, n, at, aged = {}, {}, {}, 0, 0, false
  for i, taker in ipairs(takers) do
    local entry, id, epoch = entries[i], nil, nil
    if entry then
      id, epoch = id_of_ready(entry), byte(entry) == 1 and sub(entry, 2, (find(entry, ':', 2, true)))
    else
      at = at + 1
      id, epoch = unkeyed[at], unkeyed_epochs[at]
    end
    if id then
      n = n + 1
      ids[n], epochs[n], of[n] = id, epoch or false, taker
      aged = aged or epoch
    end
  end
  return ids, aged and epochs, of
end

-- name_key adds the key to the lease of a job whose body is lost, so that the end of the lease frees the key.
local function name_key(q, id, key)
  local n = #key
  local size = n < 128 and string.char(n) or string.char(n % 128 + 128, math.floor(n / 128))
  redis.call('HSET', q.leases, id, redis.call('HGET', q.leases, id) .. string.char(2 * KEY + 1) .. size .. key)
end

-- mark_active adds jobs that were leased to the active ones of their keys. It returns a set of the takers
-- of jobs that do not exist.
local function mark_active(q, ids, t, takers, found)
  local active, heads, a, h, lost, ordered = {}, {}, 0, 0, {}, q.rules and q.rules.ordered > 0
  for k = 1, #ids do
    local taker = takers[k]
    local key = t.keys[taker]
    if not found[k] then
      lost[taker] = true
    elseif taker ~= t.unkeyed then
      active[a + 1], active[a + 2], a = '0', key .. '\0' .. ids[k], a + 2
      if (byte(found[k], 10) or 0) == 0 then name_key(q, ids[k], key) end
      if ordered then heads[h + 1], heads[h + 2], h = key, ids[k], h + 2 end
    end
  end
  if a > 0 then add_active(q, active) end
  if h > 0 then redis.call('HSET', q.key_heads, unpack(heads)) end
  return lost
end

-- take_turns leases jobs of priority p by the turns of their keys, and returns how many.
local function take_turns(q, p, want, jobs)
  local taken = 0
  while taken < want and not full() and looks < LOOKS do
    local n = math.max(1, math.min(want - taken, math.floor(room / q.big)))
    local t, order, bound = takers_of(q, p, n)
    if not t then return taken + take_of(q, p, want - taken, jobs) end
    local takers, ids, plain_ones = give_turns(q, n, t, order, bound)
    local given, epochs, lost = #takers, nil, {}
    if not plain_ones then ids, epochs, takers = jobs_of(q, p, takers, ids) end
    remove_taken(q, p, t)
    if #ids > 0 then
      taken = taken + lease(q, p, ids, epochs, jobs)
      lost = mark_active(q, ids, t, takers, jobs[#jobs - 1])
    end
    local left = write_takers(q, p, t, lost)
    if given == 0 and not left then break end
  end
  return taken
end

-- in_rings counts the keys that may start a job, and beside others the jobs without a key as one more.
local function in_rings(q)
  local n = 0
  for p = 1, 4 do
    local keys = math.max(0, redis.call('ZCARD', q.rings[p]) - 1) -- without the guard
    if keys == 1 then keys = keys - redis.call('ZREM', q.rings[p], UNKEYED) end
    n = n + keys
  end
  return n
end
