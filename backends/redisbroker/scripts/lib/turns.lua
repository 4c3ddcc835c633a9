-- @include rings

-- Turns of keys, for claim.lua. The ring of a priority has the keys that may start a job of it, by
-- their pass. The key with the least pass has the next turn, which raises its pass by STRIDE, or by
-- less if the key has a weight. Jobs without a key, which are in the ready list, take turns as
-- another key, whose name is empty.
local UNKEYED = ''
local LOOKS = 1000 -- keys looked at in one call beyond the jobs that it leases
local MOVED = 500  -- keys that a claim moves back to the rings, of each kind, at most
local looks = 0

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
    -- If the policy has changed again meanwhile, look at the keys blocked since.
    local again = redis.call('EXISTS', q.rechecked) == 0 and redis.call('HDEL', q.record, 'thaw_again') == 1 and
      redis.call('EXISTS', q.blocked) == 1
    if not again then break end
    redis.call('RENAME', q.blocked, q.rechecked)
  end
  local own = own_rules(q, due_keys)
  for i, key in ipairs(due_keys) do enter_rings(q, key, own[i]) end
end

-- Why a taker has no turn left: it has no entry; it may start nothing; it waits for the head of its key,
-- which has another priority.
local EMPTY, BLOCKED, WAITS = 1, 2, 3

-- insert_by_pass adds a taker of turns to a list of n, at an index or later, behind those whose pass is
-- not higher. That is mostly the end, since a key that had a turn comes behind all others.
local function insert_by_pass(list, n, from, taker)
  local low, high = from, n + 1
  if high <= from or list[n].pass <= taker.pass then
    list[high] = taker
    return
  end
  while low < high do
    local middle = math.floor((low + high) / 2)
    if list[middle].pass <= taker.pass then low = middle + 1 else high = middle end
  end
  table.insert(list, low, taker)
end

-- new_taker has eight fields: the key and its pass; how many turns it got, and why it gets no more
-- (state); the span of its entries, a text in which the next of them begins at a byte; and what the key
-- may start (allowed). Another field would double the size of the table. So only a key with a policy has
-- one for its stride.
local function new_taker(key, pass, span, text, at, allowed)
  return {key = key, pass = tonumber(pass), turns = 0, state = false, span = span, text = text, at = at, allowed = allowed}
end

-- takers_of returns a list of the takers of turns with the least passes, and the pass up to which they may
-- get turns, since then other keys come; nil if there are no keys. The list has at least n keys if there
-- are that many, and the jobs without a key.
local function takers_of(q, p, n)
  local ring, keys, unkeyed = redis.call('ZRANGE', q.rings[p], 0, n, 'WITHSCORES'), {}, nil
  for i = 1, #ring, 2 do
    if is_guard(ring[i]) then break end
    if ring[i] == UNKEYED then unkeyed = (i + 1) / 2 else keys[#keys + 1] = ring[i] end
  end
  if #keys == 0 then return nil end
  local own, fields, prefix = own_rules(q, keys), {}, tostring(p)
  for i = 1, #keys do fields[i] = prefix .. keys[i] end
  local texts, rooms, spans = redis.call('HMGET', q.key_spans, unpack(fields)), rooms_of(q, keys, own), {}
  local list, k, waiting = {}, 0, unkeyed_left(q, p)
  for i = 1, unkeyed and #keys + 1 or #keys do
    if i == unkeyed then
      list[i] = new_taker(UNKEYED, ring[2 * i], {n = waiting}, '', 1, ENDLESS)
    else
      k = k + 1
      local text = texts[k] or ''
      local at = find(text, '\n', 1, true) or 0
      local numbers = sub(text, 1, at)
      local span = spans[numbers] or span_of(numbers)
      spans[numbers] = span -- shared, since many keys have the same numbers
      list[i] = new_taker(keys[k], ring[2 * i], span, text, at + 1, rooms[k] or ENDLESS)
      if own[k] then list[i].stride = stride_of(own[k]) end
    end
  end
  local bound = #list > n and list[n + 1].pass or math.huge
  if waiting > 0 and not unkeyed then
    local pass = redis.call('ZSCORE', q.rings[p], UNKEYED) or list[1].pass + STRIDE - 1
    insert_by_pass(list, #list, 1, new_taker(UNKEYED, pass, {n = waiting}, '', 1, ENDLESS))
  end
  return list, bound
end

-- next_entry returns the next ready entry of a key, or nil. prefix is the priority.
local function next_entry(q, prefix, taker)
  local line_end = find(taker.text, '\n', taker.at, true)
  while not line_end do
    local span = taker.span
    local head, tail = ends_of(span)
    if head >= tail then return nil end
    taker.span = {n = span.n, head = head + 1, tail = tail, from = span.from or head} -- a new one, as others are shared
    taker.text, taker.at = redis.call('HGET', q.key_pieces, piece_field(prefix .. taker.key, head + 1)) or '', 1
    line_end = find(taker.text, '\n', 1, true)
  end
  local entry = sub(taker.text, taker.at, line_end - 1)
  taker.at = line_end + 1
  return entry
end

-- give_turns gives up to n turns to the takers in a list, up to a pass. It returns the taker of each, in
-- order; its ready entry, or false for a job without a key; and whether all entries are just IDs.
local function give_turns(q, prefix, n, list, bound)
  local turns, entries, taken, plain_ones, i, last = {}, {}, 0, true, 1, #list
  while taken < n and i <= last and looks < LOOKS do
    local taker, before = list[i], taken
    if taker.pass > bound then break end
    i = i + 1
    local key, allowed, pass, stride = taker.key, taker.allowed, taker.pass, taker.stride or STRIDE
    local room, left, head = allowed.room, taker.span.n - taker.turns, allowed.head
    local rival = list[i] and list[i].pass or math.huge -- until then the taker has the next turn, too
    while room > 0 and left > 0 do
      local entry = false
      if key == UNKEYED then
        plain_ones = false
      else
        entry = next_entry(q, prefix, taker)
        if not entry then left = 0 break end
        if byte(entry) == 1 then plain_ones = false end
        if head and id_of_ready(entry) ~= head then
          taker.state, pass = WAITS, pass + stride
          break
        end
      end
      taken = taken + 1
      turns[taken], entries[taken] = taker, entry
      room, left, pass = room - 1, left - 1, pass + stride
      if taken == n or pass >= rival or pass > bound then break end
    end
    if taken == before then looks = looks + 1 end
    taker.pass, taker.turns, allowed.room = pass, taker.turns + taken - before, room
    if not taker.state then
      if room <= 0 then
        taker.state = BLOCKED
      elseif left <= 0 then
        taker.state = EMPTY
      else
        insert_by_pass(list, last, i, taker)
        last = last + 1
      end
    end
  end
  return turns, entries, plain_ones
end

-- blocked_until returns when a key without room may start a job again, or nil if not time alone decides.
local function blocked_until(taker)
  local allowed = taker.allowed
  if allowed.bucket and (not allowed.slots or allowed.slots > taker.turns) and not (allowed.why and allowed.why ~= RATE) then
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
-- blocked. write_takers reports whether any left the ring.
local function write_takers(q, p, list, lost)
  local empty, stay, rates, blocked, tills = {}, {}, {}, {}, {}
  for i = 1, #list do
    local taker = list[i]
    local state, bucket_of = taker.state, taker.allowed.bucket
    if bucket_of and taker.turns > 0 then
      bucket_of[2] = bucket_of[2] + taker.turns
      rates[#rates + 1], rates[#rates + 2] = taker.key, bucket_text(bucket_of)
    end
    if state == EMPTY then
      empty[#empty + 1] = taker.key
    elseif state == BLOCKED and not lost[taker] then
      blocked[#blocked + 1], tills[#blocked + 1] = taker.key, blocked_until(taker) or FAR
    elseif taker.turns > 0 or state or taker.key == UNKEYED then
      local n = #stay
      stay[n + 1], stay[n + 2] = taker.pass, taker.key
    end
  end
  if #empty > 0 then redis.call('ZREM', q.rings[p], unpack(empty)) end
  block_keys(q, blocked, tills)
  if #stay > 0 then redis.call('ZADD', q.rings[p], unpack(stay)) end
  if #rates > 0 then redis.call('HSET', q.key_rates, unpack(rates)) end
  return #empty > 0 or #blocked > 0
end

-- remove_taken removes the ready entries of the turns that were given.
local function remove_taken(q, prefix, list)
  local n, over, ended, spans, keys = 0, {'-'}, {}, {}, {}
  for i = 1, #list do
    local taker = list[i]
    if taker.turns > 0 and taker.key ~= UNKEYED then
      local span, field, left = taker.span, prefix .. taker.key, taker.span.n - taker.turns
      local upto = span.from and span.head or 0 -- the pieces before are used up, and that one becomes the first
      n = n + taker.turns
      if left <= 0 then
        ended[#ended + 1], keys[#keys + 1] = field, taker.key
        if span.from or span.head ~= span.tail then upto = tonumber(span.tail) end
      else
        spans[#spans + 1], spans[#spans + 2] = field, span_text(left, span.head, span.tail, sub(taker.text, taker.at))
      end
      if upto ~= 0 then
        for number = (span.from or span.head) + 1, upto do over[#over + 1] = piece_field(field, number) end
      end
    end
  end
  if n == 0 then return end
  redis.call('HDEL', q.key_pieces, unpack(over)) -- first, so that a full server lets the claim go on
  if #ended > 0 then
    redis.call('HDEL', q.key_spans, unpack(ended))
    unlist_keys(q, keys, prefix)
  end
  if #spans > 0 then redis.call('HSET', q.key_spans, unpack(spans)) end
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
local function jobs_of(q, p, turns, entries)
  local unkeyed_turns = 0
  for i = 1, #turns do
    if not entries[i] then unkeyed_turns = unkeyed_turns + 1 end
  end
  local unkeyed, unkeyed_epochs = pop_unkeyed(q, p, unkeyed_turns)
  local ids, epochs, taker_of, n, at, aged = {}, {}, {}, 0, 0, false
  for i, taker in ipairs(turns) do
    local entry, id, epoch = entries[i], nil, nil
    if entry then
      id, epoch = id_of_ready(entry), byte(entry) == 1 and sub(entry, 2, (find(entry, ':', 2, true)))
    else
      at = at + 1
      id, epoch = unkeyed[at], unkeyed_epochs[at]
    end
    if id then
      n = n + 1
      ids[n], epochs[n], taker_of[n] = id, epoch or false, taker
      aged = aged or epoch
    end
  end
  return ids, aged and epochs, taker_of
end

-- mark_active adds jobs that were leased to the active ones of their keys. It returns a set of the takers
-- of jobs that do not exist.
local function mark_active(q, ids, takers, found)
  local active, heads, a, h, lost, ordered = {}, {}, 0, 0, {}, q.rules and q.rules.ordered > 0
  for k = 1, #ids do
    local taker = takers[k]
    local key = taker.key
    if not found[k] then
      lost[taker] = true
    elseif key ~= UNKEYED then
      active[a + 1], active[a + 2], a = '0', key .. '\0' .. ids[k], a + 2
      if ordered then heads[h + 1], heads[h + 2], h = key, ids[k], h + 2 end
    end
  end
  if a > 0 then add_active(q, active) end
  if h > 0 then redis.call('HSET', q.key_heads, unpack(heads)) end
  return lost
end

-- take_turns leases jobs of priority p by the turns of their keys, and returns how many.
local function take_turns(q, p, want, jobs)
  local taken, prefix = 0, tostring(p)
  while taken < want and not full() and looks < LOOKS do
    local n = math.max(1, math.min(want - taken, math.floor(room / q.big)))
    local list, bound = takers_of(q, p, n)
    if not list then return taken + take_of(q, p, want - taken, jobs) end
    local takers, epochs = {unpack(list)}, nil
    local turns, ids, plain_ones = give_turns(q, prefix, n, list, bound)
    local given = #turns
    if not plain_ones then ids, epochs, turns = jobs_of(q, p, turns, ids) end
    remove_taken(q, prefix, takers)
    local lost = {}
    if #ids > 0 then
      taken = taken + lease(q, p, ids, epochs, jobs)
      lost = mark_active(q, ids, turns, jobs[#jobs - 1])
    end
    local left = write_takers(q, p, takers, lost)
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
