-- settle: end leases of one worker, each with its outcome.
--
-- KEYS   m s n a h k c u i ids z y d f g l r* t b*
-- ARGV   now; 1; buckets; worker; number of the request, 0 for none; how many
--        items of it went before in other calls; channel for events; then per
--        2 or 3; then per item so many: id, outcome, tail, which is empty or left
--        out. An outcome is epoch ";" kind retention "," delay ";" deliveries ";"
--        counts ";" counts if cancelled, where kind is c complete, x cancel,
--        d dead, y retry, p pending at the back, f pending at the front
-- Reply  {0, now, verdicts}: per item a digit, its new state, or 0 for a lease
--        that was over; a refusal; {GAP} when earlier items are missing
-- @include clock
-- @include open
-- @include finish
-- @include event
-- @include due
-- @include turn
-- @include wake

local q, m = open('paused', 'watch', 'retain', 'span', 'big')
if q.refused then return q.refused end
q.paused = m[3] == '1'
q.retain, q.span = tonumber(m[5] or 0), duplicate_span(m[6])
local worker, number, offset = ARGV[first], tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2])
local stride = tonumber(ARGV[first + 4])
local ids, total = {}, 0
for at = first + 5, #ARGV, stride do
  total = total + 1
  ids[total] = ARGV[at]
end

-- What was answered before: s holds the worker's last number and its verdicts.
local known, before = redis.call('HGET', q.s, worker), ''
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
local leases = redis.call('HMGET', q.a, unpack(ids))
local asked = {}
if redis.call('HLEN', q.c) > 0 then asked = redis.call('HMGET', q.c, unpack(ids)) end
local outcomes, verdicts = {}, {}
local STATES = {c = COMPLETED, x = CANCELLED, d = DEAD, y = RETRY, p = PENDING, f = PENDING}

-- outcome_of reads an outcome, which many items may share: which lease it ends,
-- and whether that is all there is to do.
local function outcome_of(text)
  local epoch, kind, keep, rest = string.match(text, '^(%-?%d+);(%a)(%-?%d+),(.*)$')
  local o = {epoch = epoch, kind = kind, keep = keep, rest = rest, fence = epoch .. ':' .. worker .. '\n'}
  if kind == 'c' and keep == '0' and q.retain == 0 then o.quick = '2' .. o.fence end
  outcomes[text] = o
  return o
end

-- sort_out finds the items whose lease holds, of several for one lease the
-- first, if seen is given: all their IDs, the items that need more than to be
-- removed, the IDs of the rest, and those of them that have a head.
local function sort_out(seen)
  local ended, others, gone, aged, n = {}, {}, {}, {}, 0
  for i = skip + 1, total do
    local id, lease, text = ids[i], leases[i], ARGV[first + 6 + stride * (i - 1)]
    local o = outcomes[text] or outcome_of(text)
    verdicts[i - skip] = '0'
    if lease and not (seen and seen[id]) then
      local held = true
      if lease == o.quick then -- completed, kept by nobody, nothing to free
        n = n + 1
        gone[n], verdicts[i - skip] = id, '5'
        if o.epoch ~= '0' then aged[#aged + 1] = id end
      elseif string.sub(lease, 2, #o.fence + 1) == o.fence then
        others[#others + 1] = i
      else
        held = false
      end
      if seen then seen[id] = held end
    end
  end
  if #others == 0 then return gone, others, gone, aged end
  for i = 1, n do ended[i] = gone[i] end
  for _, i in ipairs(others) do ended[#ended + 1] = ids[i] end
  return ended, others, gone, aged
end
local ended, others, gone, aged = sort_out()

-- effects
if #ended > 0 then
  if redis.call('HDEL', q.a, unpack(ended)) < #ended then ended, others, gone, aged = sort_out({}) end
  if next(asked) then redis.call('HDEL', q.c, unpack(ended)) end
  local left = redis.call('HINCRBY', q.k, worker, -#ended)
  if not known and left <= 0 then
    redis.call('HDEL', q.k, worker)
    redis.call('HDEL', q.n, worker)
  end
end
if #others > 0 then
  -- read makes the head that an outcome leaves.
  local function read(o)
    local delay, deliveries, counts, cancelled = string.match(o.rest, '^(%d+);(%-?%d+);([%-%d,]+);([%-%d,]+)$')
    local final = o.kind == 'c' or o.kind == 'x' or o.kind == 'd'
    o.state, o.next, o.keep = STATES[o.kind], int(tonumber(o.epoch) + 1), math.max(0, tonumber(o.keep))
    o.head = o.next .. ',' .. o.state .. ',' .. (final and int(up) or '0') .. ',' .. deliveries .. ',' .. counts .. ';'
    if not final then
      o.cancelled = o.next .. ',' .. CANCELLED .. ',' .. int(up) .. ',' .. deliveries .. ',' .. cancelled .. ';'
    end
    if o.kind == 'y' then
      o.time = up + tonumber(delay)
      o.due = int(o.time)
    end
  end

  local heads, back, front, dues = {}, {{}, {}, {}, {}}, {{}, {}, {}, {}}, {}
  local stored, longest, earliest = 0, tonumber(m[7] or 0), nil
  local none = {}
  for _, i in ipairs(others) do
    local at = first + 5 + stride * (i - 1)
    local id, lease, o = ids[i], leases[i], outcomes[ARGV[at + 1]]
    if not o.head then read(o) end
    local kind, state, head, index = o.kind, o.state, o.head, none
    if asked[i] and o.cancelled then kind, state, head = 'x', CANCELLED, o.cancelled end
    if stride == 3 then head = head .. ARGV[at + 2] end
    if #lease > #o.fence + 1 then index = parse_index(string.sub(lease, #o.fence + 2)) end
    if kind == 'c' or kind == 'x' then
      local before = #gone
      finish(q, id, index, head, o.keep, kind == 'c' and q.f or q.g, heads, gone)
      stored = #heads
      if #gone > before and o.epoch ~= '0' then aged[#aged + 1] = id end
    else
      heads[stored + 1], heads[stored + 2], stored = id, head, stored + 2
      if kind == 'd' then
        unhold(q, index, id)
        redis.call('ZADD', q.d, int(up), id)
      else
        local priority = string.sub(lease, 1, 1)
        if #head > longest then longest = #head end
        if kind == 'y' then
          if not earliest or o.time < earliest then earliest = o.time end
          local d = #dues
          dues[d + 1], dues[d + 2] = o.due, priority .. o.next .. ':' .. id
        else
          local list = (kind == 'p' and back or front)[tonumber(priority)]
          list[#list + 1] = turn(o.next, id)
        end
      end
    end
    verdicts[i - skip] = tostring(state)
  end
  if stored > 0 then redis.call('HSET', q.h, unpack(heads)) end
  if longest > tonumber(m[7] or 0) then redis.call('HSET', q.m, 'big', longest) end
  local woken = false
  if #dues > 0 then
    local due = next_due(q)
    woken = not due or earliest < due
    redis.call('ZADD', q.y, unpack(dues))
  end
  for p = 1, 4 do
    if #back[p] > 0 then
      redis.call('LPUSH', q.r[p], unpack(back[p]))
      woken = true
    end
    if #front[p] > 0 then
      local reversed, n = {}, #front[p]
      for i = 1, n do reversed[i] = front[p][n + 1 - i] end
      redis.call('RPUSH', q.r[p], unpack(reversed))
      woken = true
    end
  end
  if woken then wake(q) end
end
remove(q, gone, aged)
local answer = string.sub(before, offset + 1, offset + skip) .. table.concat(verdicts)
if numbered and skip < total then
  redis.call('HSET', q.s, worker, int(number) .. ':' .. before .. table.concat(verdicts))
end
if m[4] then
  local events = {}
  for i = skip + 1, total do
    if verdicts[i - skip] ~= '0' then events[#events + 1] = verdicts[i - skip] .. ids[i] end
  end
  publish(m[4], ARGV[first + 3], events)
end
return {0, now, answer}
