-- settle: end leases of one worker, each with its outcome.
--
-- KEYS   record workers unreclaimed leases heads lease_counts cancels unique by_key remembered
--        scheduled retry dead completed cancelled lapses held line spans rings* blocked thawing
--        active_keys ended_keys key_policies key_rates key_heads ready* token bodies*
-- ARGV   now queues buckets worker number offset channel waits waited runs ran spent total ids* runs*
--        (number: of the request, 0 for none; offset: how many items of it went before in other
--        calls; channel: for events; waits to ran: of all items, as the totals count them; spent: of
--        each, how long it waited and how long it ran, in 8 bytes each, or nothing; total: how many
--        items; per run of items with the same outcome: how many, the outcome, and 1 if delay and tail
--        follow for each of them, or 0. An outcome is epoch ";" kind charge retention ";" deliveries
--        ";" counts ";" counts if cancelled, where kind is c complete, x cancel, d dead, y retry, p
--        pending at the back, f pending at the front, k keep: the lease stays; and charge is f a
--        failure, r one after which the job runs again, k a crash, e expired, n none)
-- Reply  {0, now, verdicts}: per item a digit, its new state, 3 for what was kept, or 0
--        for a lease that was over; a refusal; {GAP} when earlier items are missing
-- @include clock
-- @include open
-- @include finish
-- @include event
-- @include due
-- @include turn
-- @include entry
-- @include bodies
-- @include totals

local q, m = open('paused', 'watch', 'keep_completed', 'duplicate_span', 'big', 'flow')
if q.refused then return q.refused end
q.paused = m.paused == '1'
q.retain, q.span = tonumber(m.keep_completed or 0), duplicate_span(m.duplicate_span)
read_limits(q, m.flow)
local worker, number, offset = args.worker, tonumber(args.number), tonumber(args.offset)
local total = tonumber(args.total)
local first_run = first.ids + total
local ids = {unpack(ARGV, first.ids, first_run - 1)}

-- What was answered before: workers holds the worker's last number and its verdicts.
local known, before = redis.call('HGET', q.workers, worker), ''
local numbered = known and number > 0
if numbered then
  local colon = string.find(known, ':', 1, true)
  local last = tonumber(string.sub(known, 1, colon - 1))
  if number < last then return {0, now, string.rep('0', total)} end
  if number == last then before = string.sub(known, colon + 1) end
  if #before < offset then return {GAP} end
end
local skip = math.min(#before - offset, total)
if not numbered then skip = 0 end

-- checks
local leases = redis.call('HMGET', q.leases, unpack(ids))
local asked = {}
if redis.call('HLEN', q.cancels) > 0 then asked = redis.call('HMGET', q.cancels, unpack(ids)) end
local outcomes, verdicts = {}, {}
local STATES = {c = COMPLETED, x = CANCELLED, d = DEAD, y = RETRY, p = PENDING, f = PENDING}

-- outcome_of reads an outcome, which many items may share: which lease it ends,
-- and whether that is all there is to do.
local function outcome_of(text)
  local epoch, kind, charge, keep, rest = string.match(text, '^(%-?%d+);(%a)(%a)(%-?%d+);(.*)$')
  local o = {epoch = epoch, kind = kind, charge = charge, keep = keep, rest = rest, fence = epoch .. ':' .. worker .. '\n'}
  if kind == 'c' and keep == '0' and q.retain == 0 then o.quick = '2' .. o.fence end
  outcomes[text] = o
  return o
end

-- all_quick reports whether every item completes a job that nobody keeps and
-- that has nothing to free, as mostly.
local function all_quick()
  local count, outcome = unpack(ARGV, first_run, first_run + 1)
  local o = outcome_of(outcome)
  if skip > 0 or not o.quick or o.epoch ~= '0' or tonumber(count) < total then return false end
  local quick = o.quick
  for i = 1, total do
    if leases[i] ~= quick then return false end
  end
  return true
end

-- quick_key is the key of a job that is completed and not kept either, and has nothing
-- else to free.
local ordered = q.rules and q.rules.ordered > 0
local function quick_key(o, lease)
  if not o.quick or ordered or string.sub(lease, 2, #o.fence + 1) ~= o.fence then return nil end
  local tag, size = string.byte(lease, #o.fence + 2, #o.fence + 3)
  if tag == 2 * KEY + 1 and size < 128 and #lease == #o.fence + 3 + size then return string.sub(lease, #o.fence + 4) end
  local f = parse_index(string.sub(lease, #o.fence + 2))
  return not f[UNIQUE_KEY] and not f[GIVEN] and not f[KEPT] and f[KEY]
end

-- sort_out finds the items whose lease holds, of several for one lease the
-- first, if seen is given: all their IDs, the items that need more than to be
-- removed, the IDs of the rest, and those of them that have a head. Of the
-- items that need more it notes the outcome, and where the delay stands; so it does
-- of those that end nothing, which it lists in keeps.
local outcome, extra, keeps = {}, {}, {}
local ends_of_keys = {} -- by place among the rest: the key of a job that has one
local function sort_out(seen)
  local ended, others, gone, aged, n = {}, {}, {}, {}, 0
  keeps, ends_of_keys = {}, {}
  local i, at = 0, first_run
  while i < total do
    local count, text, each = unpack(ARGV, at, at + 2)
    count, each, at = tonumber(count), each == '1', at + 3
    local o = outcomes[text] or outcome_of(text)
    for k = 1, count do
      i = i + 1
      if i > skip then
        local id, lease = ids[i], leases[i]
        verdicts[i - skip] = '0'
        if lease and not (seen and seen[id]) then
          local held = true
          local key = lease ~= o.quick and quick_key(o, lease)
          if key or lease == o.quick then
            n = n + 1
            gone[n], verdicts[i - skip] = id, '5'
            if o.epoch ~= '0' then aged[#aged + 1] = id end
            if key then ends_of_keys[n] = key end
          elseif string.sub(lease, 2, #o.fence + 1) == o.fence then
            outcome[i], extra[i] = o, each and at + 2 * (k - 1)
            if o.kind == 'k' then
              keeps[#keeps + 1], verdicts[i - skip], held = i, tostring(ACTIVE), false
            else
              others[#others + 1] = i
            end
          else
            held = false
          end
          if seen then seen[id] = held end
        end
      end
    end
    if each then at = at + 2 * count end
  end
  if #others == 0 then return gone, others, gone, aged end
  for k = 1, n do ended[k] = gone[k] end
  for _, k in ipairs(others) do ended[#ended + 1] = ids[k] end
  return ended, others, gone, aged
end
local ended, others, gone, aged
local ends = {} -- by ID, where there are keeps: whether an item of the request ends the lease
if all_quick() then
  ended, others, gone, aged, verdicts = ids, {}, ids, {}, {string.rep('5', total)}
else
  ended, others, gone, aged = sort_out()
  if #keeps > 0 then ended, others, gone, aged = sort_out(ends) end
end

-- effects
if #ended > 0 then
  if redis.call('HDEL', q.leases, unpack(ended)) < #ended then
    verdicts = {}
    ended, others, gone, aged = sort_out({})
  end
  if next(asked) then redis.call('HDEL', q.cancels, unpack(ended)) end
  local left = redis.call('HINCRBY', q.lease_counts, worker, -#ended)
  if not known and left <= 0 then
    redis.call('HDEL', q.lease_counts, worker)
    redis.call('HDEL', q.unreclaimed, worker)
  end
end
for i, key in pairs(ends_of_keys) do end_lease(key, gone[i]) end
local counts = {done = #gone} -- those that need more than to be removed follow
local longest = tonumber(m.big or 0)
if #keeps > 0 then
  local kept, heads, marked = {}, {}, {}
  for _, i in ipairs(keeps) do
    local id, lease, o = ids[i], leases[i], outcome[i]
    if not ends[id] then
      local numbers = string.match(o.rest, '^(%-?%d+;[%-%d,]+);')
      local head = o.epoch .. ',' .. ACTIVE .. ',0,' .. string.gsub(numbers, ';', ',') .. ';'
      if extra[i] then head = head .. ARGV[extra[i] + 1] end
      if #head > longest then longest = #head end
      kept[#kept + 1], heads[#heads + 1], heads[#heads + 2] = id, id, head
      local at = #o.fence + 1
      if o.epoch == '0' and string.sub(lease, at + 1, at + #KEPT_FIELD) ~= KEPT_FIELD then
        marked[#marked + 1], marked[#marked + 2] = id, string.sub(lease, 1, at) .. KEPT_FIELD .. string.sub(lease, at + 1)
      end
    end
  end
  if #kept > 0 then
    redis.call('HDEL', q.heads, unpack(kept)) -- a full server lets a script go on that removed something
    redis.call('HSET', q.heads, unpack(heads))
  end
  if #marked > 0 then redis.call('HSET', q.leases, unpack(marked)) end
end
if #others > 0 or next(ends_of_keys) then
  -- read makes the head that an outcome leaves.
  local function read(o)
    local deliveries, counts, cancelled = string.match(o.rest, '^(%-?%d+);([%-%d,]+);([%-%d,]+)$')
    local final = o.kind == 'c' or o.kind == 'x' or o.kind == 'd'
    o.state, o.next, o.keep = STATES[o.kind], int(tonumber(o.epoch) + 1), math.max(0, tonumber(o.keep))
    o.head = o.next .. ',' .. o.state .. ',' .. (final and int(up) or '0') .. ',' .. deliveries .. ',' .. counts .. ';'
    if not final then
      o.cancelled = o.next .. ',' .. CANCELLED .. ',' .. int(up) .. ',' .. deliveries .. ',' .. cancelled .. ';'
    end
  end

  local heads, back, front, dues = {}, {{}, {}, {}, {}}, {{}, {}, {}, {}}, {}
  local line_back, line_front = {}, {}
  local stored, bytes, earliest = 0, 0, nil
  local none = {}
  for _, i in ipairs(others) do
    local id, lease, o, delay, tail = ids[i], leases[i], outcome[i], nil, nil
    if extra[i] then delay, tail = unpack(ARGV, extra[i], extra[i] + 1) end
    if not o.head then read(o) end
    local kind, state, head, index = o.kind, o.state, o.head, none
    if asked[i] and o.cancelled then kind, state, head = 'x', CANCELLED, o.cancelled end
    if tail then head = head .. tail end
    if #lease > #o.fence + 1 then index = parse_index(string.sub(lease, #o.fence + 2)) end
    local key = index[KEY]
    if key then end_lease(key, id) end
    count_end(counts, kind, kind == o.kind and o.charge)
    if kind == 'c' or kind == 'x' then
      local before = #gone
      finish(q, id, index, head, o.keep, kind == 'c' and q.completed or q.cancelled, heads, gone)
      if #heads > stored and #head > longest then longest = #head end
      stored = #heads
      if #gone > before and (o.epoch ~= '0' or index[KEPT]) then aged[#aged + 1] = id end
    else
      heads[stored + 1], heads[stored + 2], stored = id, head, stored + 2
      if #head > longest then longest = #head end
      if kind == 'd' then
        unhold(q, index, id)
        redis.call('ZADD', q.dead, int(up), id)
        if key then
          unlist(q, key, id, true)
          died(q, key, id)
        end
      else
        local priority = string.sub(lease, 1, 1)
        bytes = bytes + redis.call('HSTRLEN', q.bodies[bucket(q, id)], id)
        if kind == 'y' then
          local time = up + (delay and tonumber(delay) or 0)
          if not earliest or time < earliest then earliest = time end
          local d = #dues
          dues[d + 1], dues[d + 2] = time, entry(priority, o.next, id, key)
          if key then redis.call('ZADD', q.by_key, 0, key .. '\0' .. id) end
        elseif key then
          local ahead = kind == 'f' or is_head(q, key, id)
          local list = ahead and line_front or line_back
          local n = #list
          list[n + 1], list[n + 2], list[n + 3], list[n + 4] = key, priority, o.next, id
        else
          local list = (kind == 'p' and back or front)[tonumber(priority)]
          list[#list + 1] = turn(o.next, id)
        end
      end
    end
    verdicts[i - skip] = tostring(state)
  end
  if stored > 0 then redis.call('HSET', q.heads, unpack(heads)) end
  if bytes > 0 then redis.call('HINCRBY', q.record, 'bytes', bytes) end
  release_slots(q)
  local woken = join(q, line_back)
  woken = join(q, line_front, true) or woken
  woken = write_keys(q) or woken
  if #dues > 0 then
    local due = next_due(q)
    woken = woken or not due or earliest < due
    redis.call('ZADD', q.retry, unpack(dues))
  end
  for p = 1, 4 do
    if #back[p] > 0 then
      redis.call('LPUSH', q.ready[p], unpack(back[p]))
      woken = true
    end
    if #front[p] > 0 then
      local reversed, n = {}, #front[p]
      for i = 1, n do reversed[i] = front[p][n + 1 - i] end
      redis.call('RPUSH', q.ready[p], unpack(reversed))
      woken = true
    end
  end
  if woken then wake(q) end
end
made_room(q, #ended)
if #ended > 0 then
  if #ended == total then
    counts.waits, counts.waited, counts.runs, counts.ran = args.waits, args.waited, args.runs, args.ran
  else
    count_spent(counts, args.spent, skip, verdicts)
  end
  raise(q, counts)
end
if longest > tonumber(m.big or 0) then redis.call('HSET', q.record, 'big', longest) end
remove(q, gone, aged)
local fresh = table.concat(verdicts)
local answer = string.sub(before, offset + 1, offset + skip) .. fresh
if numbered and skip < total then redis.call('HSET', q.workers, worker, int(number) .. ':' .. before .. fresh) end
if watched(m.watch) then
  local events = {}
  for i = skip + 1, total do
    local state = string.sub(answer, i, i)
    if state ~= '0' and state ~= tostring(ACTIVE) then events[#events + 1] = state .. ids[i] end
  end
  publish(m.watch, args.channel, events)
end
return {0, now, answer}
