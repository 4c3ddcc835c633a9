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

-- insert_by_pass adds a taker of turns to a list, at an index or later, behind those whose pass is
-- not higher. That is mostly the end, since a key that had a turn comes behind all others.
local function insert_by_pass(list, from, taker)
  local low, high = from, #list + 1
  if high > from and list[high - 1].pass <= taker.pass then low = high end
  while low < high do
    local middle = math.floor((low + high) / 2)
    if list[middle].pass <= taker.pass then low = middle + 1 else high = middle end
  end
  table.insert(list, low, taker)
end

-- takers_of returns a list of the takers of turns with the least passes, and how many of them are keys.
-- The list has at least n keys if there are that many, and the jobs without a key. The ring may have
-- other keys, with a pass of list.bound or higher. The fields of a taker are its key, pass, stride and
-- number of turns, and for a key: the first piece of its entries (piece, and field and span to find it),
-- where the next entry begins in that (at), pieces used up (emptied), what the key may start (allowed),
-- and whether it may start nothing (blocked), has no entry left (empty), waits for its head (waits), or
-- had an entry that was void (lost).
local function takers_of(q, p, n)
  local ring, list, keys = redis.call('ZRANGE', q.rings[p], 0, n, 'WITHSCORES'), {}, {}
  local unkeyed
  for i = 1, #ring, 2 do
    if is_guard(ring[i]) then break end
    -- The table has all fields from the start, since growing it is slow.
    local taker = {key = ring[i], pass = tonumber(ring[i + 1]), turns = 0, stride = STRIDE, at = 1, piece = '', own = false, field = false,
      span = false, allowed = false, blocked = false, empty = false, waits = false, lost = false, emptied = false}
    if taker.key == UNKEYED then unkeyed = taker else keys[#keys + 1] = taker.key end
    list[#list + 1] = taker
  end
  if #keys == 0 then return list, nil end
  list.bound = #list > n and list[n + 1].pass or math.huge
  local waiting = unkeyed_left(q, p)
  if unkeyed then
    unkeyed.left = waiting
  elseif waiting > 0 then
    local pass = redis.call('ZSCORE', q.rings[p], UNKEYED) or list[1].pass + STRIDE - 1
    insert_by_pass(list, 1, {key = UNKEYED, pass = tonumber(pass), turns = 0, stride = STRIDE, left = waiting})
  end
  local own, at, fields, pieces = own_rules(q, keys), 0, {}, {}
  for i, key in ipairs(keys) do fields[i] = p .. key end
  local spans = redis.call('HMGET', q.key_spans, unpack(fields))
  for i, field in ipairs(fields) do
    spans[i] = span_of(spans[i])
    pieces[i] = field .. '\0' .. spans[i].head
  end
  pieces = redis.call('HMGET', q.key_pieces, unpack(pieces))
  for _, taker in ipairs(list) do
    if taker.key ~= UNKEYED then
      at = at + 1
      taker.own, taker.field, taker.span, taker.piece = own[at], fields[at], spans[at], pieces[at] or ''
      taker.stride = stride_of(taker.own)
    end
  end
  return list, #keys
end

-- next_entry returns the next ready entry of a key, or nil.
local function next_entry(q, taker)
  local span = taker.span
  while span.n > taker.turns do
    local line_end = find(taker.piece, '\n', taker.at, true)
    if line_end then return sub(taker.piece, taker.at, line_end - 1) end
    local head, tail = ends_of(span)
    if head >= tail then return nil end
    taker.emptied = taker.emptied or {}
    taker.emptied[#taker.emptied + 1] = piece_field(taker.field, head)
    span.head = head + 1
    taker.piece, taker.at = redis.call('HGET', q.key_pieces, piece_field(taker.field, span.head)) or '', 1
  end
end

-- give_turns gives up to n turns. It returns the taker of each, in order, and its ready entry, or false
-- for a job without a key.
local function give_turns(q, n, list)
  local first_one, turns, entries, taken = 1, {}, {}, 0
  while taken < n and list[first_one] and looks < LOOKS do
    local taker, entry = list[first_one], nil
    if taker.pass > list.bound then break end
    if taker.key == UNKEYED then
      if taker.left == 0 then taker.empty = true end
    else
      if not taker.allowed then
        taker.allowed = q.rules and key_room(q, taker.key, taker.own) or ENDLESS
        taker.blocked = taker.allowed.room <= 0
      end
      if not taker.blocked then
        entry = next_entry(q, taker)
        local head = taker.allowed.head
        taker.empty = not entry
        taker.waits = head and entry and head ~= id_of_ready(entry)
      end
    end
    if taker.waits then taker.pass = taker.pass + taker.stride end -- for its head, which has another priority
    if taker.blocked or taker.empty or taker.waits then
      first_one, looks = first_one + 1, looks + 1
    else
      taken = taken + 1
      turns[taken], entries[taken] = taker, entry or false
      taker.turns, taker.pass = taker.turns + 1, taker.pass + taker.stride
      if taker.key == UNKEYED then
        taker.left = taker.left - 1
        taker.empty = taker.left == 0
      else
        taker.at, taker.allowed.room = taker.at + #entry + 1, taker.allowed.room - 1
        taker.blocked = taker.allowed.room <= 0
        taker.empty = not taker.blocked and taker.span.n <= taker.turns
      end
      first_one = first_one + 1
      if not (taker.blocked or taker.empty) then insert_by_pass(list, first_one, taker) end
    end
  end
  return turns, entries
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
-- stay in the ring. It reports whether any left the ring.
local function write_takers(q, p, list)
  local empty, stay, rates, blocked, tills = {}, {}, {}, {}, {}
  for _, taker in ipairs(list) do
    if taker.allowed and taker.allowed.bucket and taker.turns > 0 then
      taker.allowed.bucket[2] = taker.allowed.bucket[2] + taker.turns
      rates[#rates + 1], rates[#rates + 2] = taker.key, bucket_text(taker.allowed.bucket)
    end
    if taker.lost and taker.blocked then taker.blocked = false end -- it holds less than was thought
    if taker.blocked then
      blocked[#blocked + 1], tills[#blocked + 1] = taker.key, blocked_until(taker) or FAR
    elseif taker.empty then
      empty[#empty + 1] = taker.key
    elseif taker.turns > 0 or taker.waits or taker.key == UNKEYED then
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
local function remove_taken(q, list)
  local n, over, ended, pieces, spans, keys = 0, {'-'}, {}, {}, {}, {}
  for _, taker in ipairs(list) do
    if taker.span and taker.turns > 0 then
      local span, rest = taker.span, sub(taker.piece, taker.at)
      n, span.n = n + taker.turns, span.n - taker.turns
      if taker.emptied then
        for _, field in ipairs(taker.emptied) do over[#over + 1] = field end
      end
      if span.n <= 0 then
        ended[#ended + 1], keys[#keys + 1] = taker.field, taker.key
        local head, tail = ends_of(span)
        for number = head, tail do over[#over + 1] = piece_field(taker.field, number) end
      else
        if rest ~= '' then
          pieces[#pieces + 1], pieces[#pieces + 2] = piece_field(taker.field, span.head), rest
        else
          over[#over + 1] = piece_field(taker.field, span.head)
          span.head = span.head + 1
        end
        spans[#spans + 1], spans[#spans + 2] = taker.field, span_text(span)
      end
    end
  end
  if n == 0 then return end
  redis.call('HDEL', q.key_pieces, unpack(over)) -- first, so that a full server lets the claim go on
  if #ended > 0 then
    redis.call('HDEL', q.key_spans, unpack(ended))
    unlist_keys(q, keys)
  end
  if #pieces > 0 then redis.call('HSET', q.key_pieces, unpack(pieces)) end
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

-- take_turns leases jobs of priority p by the turns of their keys, and returns how many.
local function take_turns(q, p, want, jobs)
  local taken = 0
  while taken < want and not full() and looks < LOOKS do
    local n = math.max(1, math.min(want - taken, math.floor(room / q.big)))
    local list, keys = takers_of(q, p, n)
    if not keys then return taken + take_of(q, p, want - taken, jobs) end
    local takers = {unpack(list)}
    local turns, entries = give_turns(q, n, list)
    local unkeyed_turns = 0
    for i = 1, #turns do
      if not entries[i] then unkeyed_turns = unkeyed_turns + 1 end
    end
    local unkeyed, unkeyed_epochs = pop_unkeyed(q, p, unkeyed_turns)

    local ids, epochs, taker_of, next_one, any_epoch = {}, {}, {}, 0, nil
    for i, taker in ipairs(turns) do
      local id, epoch
      if entries[i] then
        local t = entries[i]
        id, epoch = id_of_ready(t), byte(t) == 1 and sub(t, 2, (find(t, ':', 2, true)))
      else
        next_one = next_one + 1
        id, epoch = unkeyed[next_one], unkeyed_epochs[next_one]
      end
      if id then
        local k = #ids + 1
        ids[k], epochs[k], taker_of[k] = id, epoch or false, taker
        any_epoch = any_epoch or epoch
      end
    end
    remove_taken(q, takers)
    local leased = 0
    if #ids > 0 then
      leased = lease(q, p, ids, any_epoch and epochs, jobs)
      local found, active, heads, ordered = jobs[#jobs - 1], {}, {}, q.rules and q.rules.ordered > 0
      for k, id in ipairs(ids) do
        local taker = taker_of[k]
        if not found[k] then
          taker.lost = true
        elseif taker.key ~= UNKEYED then
          local n = #active
          active[n + 1], active[n + 2] = '0', taker.key .. '\0' .. id
          if ordered then heads[#heads + 1], heads[#heads + 2] = taker.key, id end
        end
      end
      if #active > 0 then add_active(q, active) end
      if #heads > 0 then redis.call('HSET', q.key_heads, unpack(heads)) end
    end
    local left = write_takers(q, p, takers)
    taken = taken + leased
    if #turns == 0 and not left then break end
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
