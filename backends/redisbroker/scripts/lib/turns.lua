-- @include line

-- Turns of keys, for claim.lua. In the ring of a priority stand the keys that may start
-- a job of it, by their pass; whoever is least goes next, and a turn takes him on by
-- STRIDE, or less by his weight. Jobs without a key, which stand in the ready list, are
-- one more of these, of which the name is empty.
local UNKEYED = ''
local LOOKS = 1000 -- keys looked at in one call beyond the jobs that it leases
local MOVED = 500  -- keys that a claim lets back into the rings
local looks = 0

-- unblock lets keys back into the rings: those whose time has come, and those that a
-- change of the policy may have freed. A look at them in their turn says whether it did.
local function unblock(q, thawing)
  local due_keys = redis.call('ZRANGE', q.blocked, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, MOVED)
  q.unsettled = #due_keys == MOVED
  if #due_keys > 0 then redis.call('ZREM', q.blocked, unpack(due_keys)) end
  local room = thawing and MOVED or 0
  while room > 0 do
    local more = redis.call('ZRANGE', q.thawing, 0, room - 1)
    if #more > 0 then redis.call('ZREM', q.thawing, unpack(more)) end
    for _, key in ipairs(more) do due_keys[#due_keys + 1] = key end
    room = room - #more
    -- The policy changed again meanwhile.
    local again = redis.call('EXISTS', q.thawing) == 0 and redis.call('HDEL', q.record, 'thaw_again') == 1 and
      redis.call('EXISTS', q.blocked) == 1
    if not again then break end
    redis.call('RENAME', q.blocked, q.thawing)
  end
  local own = own_rules(q, due_keys)
  for i, key in ipairs(due_keys) do enter_all(q, key, own[i]) end
end

-- sort_in puts a participant into a list, from an index on, behind those whose pass is
-- not higher. Most often that is its end, since whoever had a turn goes behind all others.
local function sort_in(list, from, who)
  local low, high = from, #list + 1
  if high > from and list[high - 1].pass <= who.pass then low = high end
  while low < high do
    local middle = math.floor((low + high) / 2)
    if list[middle].pass <= who.pass then low = middle + 1 else high = middle end
  end
  table.insert(list, low, who)
end

-- participants are the first of a ring, n keys at least if there are so many, with the
-- jobs without a key among them, and how many are keys. Others may be in the ring from the pass bound on.
local function participants(q, p, n)
  local ring, list, keys = redis.call('ZRANGE', q.rings[p], 0, n, 'WITHSCORES'), {}, {}
  local unkeyed
  for i = 1, #ring, 2 do
    if is_guard(ring[i]) then break end
    -- All fields from the start: a table that grows costs more than what it is for.
    local who = {key = ring[i], pass = tonumber(ring[i + 1]), turns = 0, stride = STRIDE, at = 1, piece = '', own = false, field = false,
      span = false, may = false, shut = false, out = false, waits = false, lost = false, over = false}
    if who.key == UNKEYED then unkeyed = who else keys[#keys + 1] = who.key end
    list[#list + 1] = who
  end
  if #keys == 0 then return list, nil end
  list.bound = #list > n and list[n + 1].pass or math.huge
  local waiting = unkeyed_left(q, p)
  if unkeyed then
    unkeyed.left = waiting
  elseif waiting > 0 then
    local pass = redis.call('ZSCORE', q.rings[p], UNKEYED) or list[1].pass + STRIDE - 1
    sort_in(list, 1, {key = UNKEYED, pass = tonumber(pass), turns = 0, stride = STRIDE, left = waiting})
  end
  local own, at, fields, pieces = own_rules(q, keys), 0, {}, {}
  for i, key in ipairs(keys) do fields[i] = p .. key end
  local spans = redis.call('HMGET', q.spans, unpack(fields))
  for i, field in ipairs(fields) do
    spans[i] = span_of(spans[i])
    pieces[i] = field .. '\0' .. spans[i].head
  end
  pieces = redis.call('HMGET', q.line, unpack(pieces))
  for _, who in ipairs(list) do
    if who.key ~= UNKEYED then
      at = at + 1
      who.own, who.field, who.span, who.piece = own[at], fields[at], spans[at], pieces[at] or ''
      who.stride = stride_of(who.own)
    end
  end
  return list, #keys
end

-- next_turn is the next turn in line of a participant, or nil when it has no more.
local function next_turn(q, who)
  local span = who.span
  while span.n > who.turns do
    local line_end = find(who.piece, '\n', who.at, true)
    if line_end then return sub(who.piece, who.at, line_end - 1) end
    local head, tail = ends_of(span)
    if head >= tail then return nil end
    who.over = who.over or {}
    who.over[#who.over + 1] = piece_field(who.field, head)
    span.head = head + 1
    who.piece, who.at = redis.call('HGET', q.line, piece_field(who.field, span.head)) or '', 1
  end
end

-- allot gives out up to n turns: it returns for each who has it, and the turn in line.
local function allot(q, n, list)
  local first_one, turns, entries, taken = 1, {}, {}, 0
  while taken < n and list[first_one] and looks < LOOKS do
    local who, entry = list[first_one], nil
    if who.pass > list.bound then break end
    if who.key == UNKEYED then
      if who.left == 0 then who.out = true end
    else
      if not who.may then
        who.may = q.rules and key_room(q, who.key, who.own) or ENDLESS
        who.shut = who.may.room <= 0
      end
      if not who.shut then
        entry = next_turn(q, who)
        local head = who.may.head
        who.out = not entry
        who.waits = head and entry and head ~= id_of_turn(entry)
      end
    end
    if who.waits then who.pass = who.pass + who.stride end -- for its head, which is of another priority
    if who.shut or who.out or who.waits then
      first_one, looks = first_one + 1, looks + 1
    else
      taken = taken + 1
      turns[taken], entries[taken] = who, entry or false
      who.turns, who.pass = who.turns + 1, who.pass + who.stride
      if who.key == UNKEYED then
        who.left = who.left - 1
        who.out = who.left == 0
      else
        who.at, who.may.room = who.at + #entry + 1, who.may.room - 1
        who.shut = who.may.room <= 0
        who.out = not who.shut and who.span.n <= who.turns
      end
      first_one = first_one + 1
      if not (who.shut or who.out) then sort_in(list, first_one, who) end
    end
  end
  return turns, entries
end

-- closed is until when a key may start nothing that has no room left now.
local function closed(who)
  local may = who.may
  if may.bucket and (not may.slots or may.slots > who.turns) and not (may.why and may.why ~= RATE) then
    local _, till = bucket_free(may.bucket, unpack(may.rate))
    return till
  end
  return nil
end

-- shut_out takes keys that may start nothing out of all rings, and notes those with
-- jobs left as blocked.
local function shut_out(q, names, tills)
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

-- after_turns writes what became of the participants. It returns whether any left
-- the ring.
local function after_turns(q, p, list)
  local out, stay, rates, shut, tills = {}, {}, {}, {}, {}
  for _, who in ipairs(list) do
    if who.may and who.may.bucket and who.turns > 0 then
      who.may.bucket[2] = who.may.bucket[2] + who.turns
      rates[#rates + 1], rates[#rates + 2] = who.key, bucket_text(who.may.bucket)
    end
    if who.lost and who.shut then who.shut = false end -- it holds less than was thought
    if who.shut then
      shut[#shut + 1], tills[#shut + 1] = who.key, closed(who) or FAR
    elseif who.out then
      out[#out + 1] = who.key
    elseif who.turns > 0 or who.waits or who.key == UNKEYED then
      local n = #stay
      stay[n + 1], stay[n + 2] = who.pass, who.key
    end
  end
  if #out > 0 then redis.call('ZREM', q.rings[p], unpack(out)) end
  shut_out(q, shut, tills)
  if #stay > 0 then redis.call('ZADD', q.rings[p], unpack(stay)) end
  if #rates > 0 then redis.call('HSET', q.key_rates, unpack(rates)) end
  return #out > 0 or #shut > 0
end

-- leave_line takes what was given out off the lines of the participants.
local function leave_line(q, list)
  local n, over, ended, pieces, spans, keys = 0, {'-'}, {}, {}, {}, {}
  for _, who in ipairs(list) do
    if who.span and who.turns > 0 then
      local span, rest = who.span, sub(who.piece, who.at)
      n, span.n = n + who.turns, span.n - who.turns
      if who.over then
        for _, field in ipairs(who.over) do over[#over + 1] = field end
      end
      if span.n <= 0 then
        ended[#ended + 1], keys[#keys + 1] = who.field, who.key
        local head, tail = ends_of(span)
        for number = head, tail do over[#over + 1] = piece_field(who.field, number) end
      else
        if rest ~= '' then
          pieces[#pieces + 1], pieces[#pieces + 2] = piece_field(who.field, span.head), rest
        else
          over[#over + 1] = piece_field(who.field, span.head)
          span.head = span.head + 1
        end
        spans[#spans + 1], spans[#spans + 2] = who.field, span_text(span)
      end
    end
  end
  if n == 0 then return end
  redis.call('HDEL', q.line, unpack(over)) -- first, so that a full server lets the claim go on
  if #ended > 0 then
    redis.call('HDEL', q.spans, unpack(ended))
    unlist_keys(q, keys)
  end
  if #pieces > 0 then redis.call('HSET', q.line, unpack(pieces)) end
  if #spans > 0 then redis.call('HSET', q.spans, unpack(spans)) end
  redis.call('HINCRBY', q.record, 'keyed', -n)
end

-- add_active adds active jobs to those of their keys. Many are added beside a member of
-- 65 bytes: that takes the set out of the compact form, in which each look-up is a scan, for
-- as long as it is there.
local MANY, LONG = 32, string.rep('\0', 65)
local function add_active(q, members)
  if #members < MANY then
    redis.call('ZADD', q.active_keys, unpack(members))
  else
    redis.call('ZADD', q.active_keys, 0, LONG, unpack(members))
    redis.call('ZREM', q.active_keys, LONG)
  end
end

-- take_turns takes jobs of priority p in turns, and returns how many it leased.
local function take_turns(q, p, want, jobs)
  local taken = 0
  while taken < want and not full() and looks < LOOKS do
    local n = math.max(1, math.min(want - taken, math.floor(room / q.big)))
    local list, keys = participants(q, p, n)
    if not keys then return taken + take_of(q, p, want - taken, jobs) end
    local everybody = {unpack(list)}
    local turns, entries = allot(q, n, list)
    local of_list = 0
    for i = 1, #turns do
      if not entries[i] then of_list = of_list + 1 end
    end
    local unkeyed, unkeyed_epochs = pop_unkeyed(q, p, of_list)

    local ids, epochs, who_of, next_one, any_epoch = {}, {}, {}, 0, nil
    for i, who in ipairs(turns) do
      local id, epoch
      if entries[i] then
        local t = entries[i]
        id, epoch = id_of_turn(t), byte(t) == 1 and sub(t, 2, (find(t, ':', 2, true)))
      else
        next_one = next_one + 1
        id, epoch = unkeyed[next_one], unkeyed_epochs[next_one]
      end
      if id then
        local k = #ids + 1
        ids[k], epochs[k], who_of[k] = id, epoch or false, who
        any_epoch = any_epoch or epoch
      end
    end
    leave_line(q, everybody)
    local leased = 0
    if #ids > 0 then
      leased = lease(q, p, ids, any_epoch and epochs, jobs)
      local found, active, heads, ordered = jobs[#jobs - 1], {}, {}, q.rules and q.rules.ordered > 0
      for k, id in ipairs(ids) do
        local who = who_of[k]
        if not found[k] then
          who.lost = true
        elseif who.key ~= UNKEYED then
          local n = #active
          active[n + 1], active[n + 2] = '0', who.key .. '\0' .. id
          if ordered then heads[#heads + 1], heads[#heads + 2] = who.key, id end
        end
      end
      if #active > 0 then add_active(q, active) end
      if #heads > 0 then redis.call('HSET', q.key_heads, unpack(heads)) end
    end
    local left = after_turns(q, p, everybody)
    taken = taken + leased
    if #turns == 0 and not left then break end
  end
  return taken
end

-- in_rings counts the keys that may start a job, and the jobs without a key as one
-- more where others are there.
local function in_rings(q)
  local n = 0
  for p = 1, 4 do
    local keys = redis.call('ZCARD', q.rings[p]) - 1
    if keys == 1 then keys = keys - redis.call('ZREM', q.rings[p], UNKEYED) end
    n = n + keys
  end
  return n
end
