-- @include room
-- @include guard
-- @include span

-- A key that may start a job of a priority is in the ring of that priority, by its pass. Other keys
-- with pending jobs are in blocked, by the time at which they may start one, or FAR if that is not
-- known. After a change of the policy they are in rechecked, until claims have looked at them again.
-- A ring has a guard.
local FAR = 9000000000000001 -- not round, since miniredis writes 9e+15 otherwise, which its Lua cannot read
local STRIDE = 1000000 -- how far a turn takes a key of weight 1

local function stride_of(own)
  local weight = own and own.weight or 0
  return weight > 1 and math.floor(STRIDE / weight) or STRIDE
end

-- entry_pass returns the pass with which a key enters the ring of a priority. It is behind the next turn
-- of each other key, so that a key gains nothing by having been away, and before their second one.
local function entry_pass(q, p, own)
  q.passes = q.passes or {{}, {}, {}, {}}
  local passes, stride = q.passes[p], stride_of(own)
  if not passes.floor then
    local least = redis.call('ZRANGE', q.rings[p], 0, 0, 'WITHSCORES')
    passes.floor = is_guard(least[1]) and 0 or tonumber(least[2])
  end
  passes[stride] = passes[stride] or int(passes.floor + stride - 1)
  return passes[stride]
end

-- enter_ring adds a key to the ring of a priority.
local function enter_ring(q, key, p, own)
  redis.call('ZADD', q.rings[p], 'NX', entry_pass(q, p, own), key, '+inf', GUARD)
end

-- enter_rings adds a key to the ring of each priority of which it has pending jobs. It returns
-- whether it has any.
local function enter_rings(q, key, own, pending)
  local n, sum = pending, 1
  if not n then n, sum = pending_of(q, key) end
  for p = 1, 4 do
    if n[p] > 0 then enter_ring(q, key, p, own) end
  end
  return sum > 0
end

-- admit adds a key with pending jobs to its rings, or to the blocked keys. It returns whether one of
-- the jobs can be claimed; if not, and time alone decides, it also returns when one can.
local function admit(q, key, own)
  local n, sum = pending_of(q, key)
  if sum == 0 then return false end
  local allowed = key_room(q, key, own)
  if allowed.room <= 0 then
    redis.call('ZADD', q.blocked, int(allowed.till or FAR), key)
    return false, allowed.till
  end
  return enter_rings(q, key, own, n)
end

-- next_unblocked returns when the next blocked key may start a job, or nil if no time is known.
local function next_unblocked(q)
  local e = redis.call('ZRANGE', q.blocked, 0, 0, 'WITHSCORES')
  local at = e[1] and tonumber(e[2])
  if at and at < FAR then return at end
end

-- recheck_again makes claims look at all blocked keys, if the policy has changed since keys went to rechecked and
-- none of these are left. It reports whether it did.
local function recheck_again(q)
  if redis.call('EXISTS', q.rechecked) == 1 or redis.call('HDEL', q.record, 'thaw_again') == 0 then return false end
  if redis.call('EXISTS', q.blocked) == 0 then return false end
  redis.call('RENAME', q.blocked, q.rechecked)
  return true
end

-- free_keys looks again at blocked keys whose jobs ended, or whose head is pending again. It returns whether to wake a
-- claim, since one of their jobs can be claimed now, or sooner than was known.
local function free_keys(q, keys)
  if #keys == 0 or redis.call('EXISTS', q.blocked) == 0 then return false end
  local scores, freed = redis.call('ZMSCORE', q.blocked, unpack(keys)), {}
  for i, key in ipairs(keys) do
    if scores[i] then freed[#freed + 1] = key end
  end
  if #freed == 0 then return false end
  local own, known, woken = own_rules(q, freed), next_unblocked(q), false
  redis.call('ZREM', q.blocked, unpack(freed))
  for i, key in ipairs(freed) do
    local open, till = admit(q, key, own[i])
    woken = woken or open or till and (not known or till < known)
  end
  return woken
end

-- list_keys adds keys with pending jobs to by_key. unlist_keys removes those without any and without
-- a policy.
local function list_keys(q, keys)
  local members = {}
  for i, key in ipairs(keys) do members[2 * i - 1], members[2 * i] = '0', key .. '\0' end
  if #keys > 0 then redis.call('ZADD', q.by_key, unpack(members)) end
end

-- only_of reports whether no key has pending jobs of other priorities than p, as is mostly so: each key
-- that has is in a ring, or it is blocked.
local OTHERS = {{2, 3, 4}, {1, 3, 4}, {1, 2, 4}, {1, 2, 3}}
local function only_of(q, p)
  local i, j, k = unpack(OTHERS[tonumber(p)])
  return redis.call('EXISTS', q.rings[i], q.rings[j], q.rings[k], q.blocked, q.rechecked) == 0
end

-- unlist_keys gets the priority of which the keys have no more jobs, if they had some.
local function unlist_keys(q, keys, p)
  local own, left, members = own_rules(q, keys), {}, {}
  if not (p and only_of(q, p)) then
    local fields = {}
    for i, key in ipairs(keys) do
      fields[4 * i - 3], fields[4 * i - 2], fields[4 * i - 1], fields[4 * i] = '1' .. key, '2' .. key, '3' .. key, '4' .. key
    end
    left = redis.call('HMGET', q.key_spans, unpack(fields))
  end
  for i, key in ipairs(keys) do
    local some = own[i] or left[4 * i - 3] or left[4 * i - 2] or left[4 * i - 1] or left[4 * i]
    if not some then members[#members + 1] = key .. '\0' end
  end
  if #members > 0 then redis.call('ZREM', q.by_key, unpack(members)) end
end

local add_keyed
do -- Lua allows a script 200 local names at a time
  local PIECE = 300 -- bytes; nothing is added to a longer piece

  -- append adds entries behind those of a span. It gets the last piece, and adds the fields and pieces
  -- to store to written. prepend adds entries in front.
  local function append(field, span, piece, entries, written)
    local from = 1
    while from <= #entries do
      if #piece >= PIECE then span.tail, piece = span.tail + 1, '' end
      local upto = #entries
      if from == upto then
        piece = piece .. entries[from] .. '\n'
      else
        upto = math.min(upto, from + math.floor((PIECE - #piece) / (#entries[from] + 1)))
        piece = piece .. table.concat(entries, '\n', from, upto) .. '\n'
      end
      if span.tail == span.head then
        span.piece = piece
      else
        written[#written + 1], written[#written + 2] = piece_field(field, span.tail), piece
      end
      from = upto + 1
    end
  end

  local function prepend(field, span, entries, written)
    local upto = #entries
    while upto >= 1 do
      if #span.piece >= PIECE then
        written[#written + 1], written[#written + 2] = piece_field(field, span.head), span.piece
        span.head, span.piece = span.head - 1, ''
      end
      local from = math.max(1, upto - math.floor((PIECE - #span.piece) / (#entries[upto] + 1)))
      span.piece = table.concat(entries, '\n', from, upto) .. '\n' .. span.piece
      upto = from - 1
    end
  end

  -- by_key_and_priority divides the jobs given to add_keyed into lists of ready entries.
  local function by_key_and_priority(jobs)
    local groups, fields = {}, {}
    for i = 1, #jobs, 4 do
      local key, p = jobs[i], jobs[i + 1]
      local field = p .. key
      local group = groups[field]
      if not group then
        group = {key = key, p = tonumber(p), entries = {ready_entry(jobs[i + 2], jobs[i + 3])}, span = false, before = 0}
        groups[field], fields[#fields + 1] = group, field
      else
        group.entries[#group.entries + 1] = ready_entry(jobs[i + 2], jobs[i + 3])
      end
    end
    return groups, fields
  end

  -- head_first puts the head of a key before the entries that come to the front, since only the head may
  -- start. If the head is the first of all already, it is taken from the first piece.
  local function head_first(q, group)
    local head, pending = head_of(q, group.key)
    if not head then return end
    for i, e in ipairs(group.entries) do
      if id_of_ready(e) == head then
        table.insert(group.entries, 1, table.remove(group.entries, i))
        return
      end
    end
    local span = group.span
    local e = pending and string.match(span.piece, '^[^\n]+')
    if not e or id_of_ready(e) ~= head then return end
    table.insert(group.entries, 1, e)
    span.n, span.piece = span.n - 1, string.sub(span.piece, #e + 2)
  end

  -- last_pieces returns the last piece of each group's span that has more than one.
  local function last_pieces(q, groups, fields)
    local asked, of, last = {}, {}, {}
    for _, field in ipairs(fields) do
      local span = groups[field].span
      if span.tail ~= span.head then asked[#asked + 1], of[#of + 1] = piece_field(field, span.tail), field end
    end
    if #asked == 0 then return last end
    for i, piece in ipairs(redis.call('HMGET', q.key_pieces, unpack(asked))) do last[of[i]] = piece or '' end
    return last
  end

  -- write_entries stores ready entries, behind the existing ones or, with front, before them.
  local function write_entries(q, groups, fields, front)
    local spans, written, texts = redis.call('HMGET', q.key_spans, unpack(fields)), {}, {}
    for i, field in ipairs(fields) do
      local span = span_of(spans[i])
      groups[field].span, groups[field].before = span, span.n
    end
    local last = front and {} or last_pieces(q, groups, fields)
    for i, field in ipairs(fields) do
      local group = groups[field]
      local span = group.span
      if front and q.rules and q.rules.ordered > 0 then head_first(q, group) end
      if front then
        prepend(field, span, group.entries, written)
      else
        append(field, span, last[field] or span.piece, group.entries, written)
      end
      span.n = span.n + #group.entries
      texts[2 * i - 1], texts[2 * i] = field, span_text(span.n, span.head, span.tail, span.piece)
    end
    if #written > 0 then redis.call('HSET', q.key_pieces, unpack(written)) end
    redis.call('HSET', q.key_spans, unpack(texts))
  end

  -- enter_keys adds the keys that had no jobs of a priority to its ring, or to the blocked keys. It returns whether to
  -- wake a claim.
  local function enter_keys(q, groups, fields)
    local names, blocked, rechecked, known = {}, {}, {}, nil
    for i, field in ipairs(fields) do names[i] = groups[field].key end
    if redis.call('EXISTS', q.blocked, q.rechecked) > 0 then
      known = next_unblocked(q)
      blocked, rechecked = redis.call('ZMSCORE', q.blocked, unpack(names)), redis.call('ZMSCORE', q.rechecked, unpack(names))
    end
    local unlisted, keys, priorities, n, woken = {}, {}, {}, 0, false
    for i, field in ipairs(fields) do
      local group, held = groups[field], blocked[i] or rechecked[i]
      if group.before > 0 then
        woken = woken or not held
      else
        unlisted[#unlisted + 1] = group.key
        if not held then
          n = n + 1
          keys[n], priorities[n] = group.key, group.p
        end
      end
    end
    list_keys(q, unlisted)
    local own = own_rules(q, keys)
    local rooms, entering, blocking = rooms_of(q, keys, own), {{}, {}, {}, {}}, {}
    for i, key in ipairs(keys) do
      local p, allowed = priorities[i], rooms[i] or ENDLESS
      local open, list = allowed.room > 0, entering[p]
      if open then
        list[#list + 1], list[#list + 2] = entry_pass(q, p, own[i]), key
      else
        blocking[#blocking + 1], blocking[#blocking + 2] = int(allowed.till or FAR), key
      end
      woken = woken or open or allowed.till and (not known or allowed.till < known)
    end
    for p = 1, 4 do
      if #entering[p] > 0 then redis.call('ZADD', q.rings[p], 'NX', '+inf', GUARD, unpack(entering[p])) end
    end
    if #blocking > 0 then redis.call('ZADD', q.blocked, unpack(blocking)) end
    return woken
  end

  -- add_keyed adds pending jobs with keys, in order; jobs has key, priority, epoch and ID of each. They
  -- come behind all others of their key and priority or, with front, before them. It returns whether to
  -- wake a claim, since a job can be claimed now, or sooner than was known.
  function add_keyed(q, jobs, front)
    if #jobs == 0 then return false end
    local groups, fields = by_key_and_priority(jobs)
    write_entries(q, groups, fields, front)
    redis.call('HINCRBY', q.record, 'keyed', #jobs / 4)
    if q.rules and q.rules.ordered > 0 then
      for i = 1, #jobs, 4 do
        if is_head(q, jobs[i], jobs[i + 3]) then redis.call('HSET', q.key_heads, jobs[i], jobs[i + 3] .. '\n' .. PENDING_HEAD) end
      end
    end

    return enter_keys(q, groups, fields)
  end
end
