-- @include finish
-- @include due
-- @include push_ready
-- @include entry
-- @include bury

-- The part of settle.lua for jobs that need more than to be removed, and for queues with limits.

-- count_ends_of counts n ends of a lease with the same outcome.
local ENDS = {c = 'done', x = 'dropped', d = 'died'}
local CHARGES = {f = {'failed'}, r = {'failed', 'retried'}, k = {'crashed'}, e = {'expired'}}
local function count_ends_of(n, kind, charge)
  local function raise_by(name) counts[name] = (counts[name] or 0) + n end
  if ENDS[kind] then raise_by(ENDS[kind]) end
  for _, name in ipairs(charge and CHARGES[charge] or {}) do raise_by(name) end
end

local STATES = {c = COMPLETED, x = CANCELLED, d = DEAD, y = RETRY, p = PENDING, f = PENDING}

-- store_kept stores the heads of jobs whose lease goes on, and marks leases of fresh jobs, which had
-- none.
local function store_kept()
  local kept, heads, marked = {}, {}, {}
  for _, i in ipairs(keeps) do
    local id, lease, o = ids[i], leases[i], outcome[i]
    if not ends[id] then
      local numbers = string.match(o.rest, '^(%-?%d+;[%-%d,]+);')
      local head = o.epoch .. ',' .. ACTIVE .. ',0,' .. string.gsub(numbers, ';', ',') .. ';'
      if extra[i] then head = head .. ARGV[extra[i] + 1] end
      longest = math.max(longest, #head)
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

-- make_head adds to an outcome the state, the next epoch, the retention, and the head that it leaves, also
-- for a job that was asked to cancel.
local function make_head(o)
  local deliveries, numbers, cancelled = string.match(o.rest, '^(%-?%d+);([%-%d,]+);([%-%d,]+)$')
  local final = o.kind == 'c' or o.kind == 'x' or o.kind == 'd'
  o.state, o.next, o.keep = STATES[o.kind], int(tonumber(o.epoch) + 1), math.max(0, tonumber(o.keep))
  o.head = o.next .. ',' .. o.state .. ',' .. (final and int(up) or '0') .. ',' .. deliveries .. ',' .. numbers .. ';'
  if not final then
    o.cancelled = o.next .. ',' .. CANCELLED .. ',' .. int(up) .. ',' .. deliveries .. ',' .. cancelled .. ';'
  end
end

-- settle_others moves the jobs that need more than to be removed to their new states.
local NOTHING = {}
local function settle_others()
  local heads, stored, bytes, dues, earliest, stopped = {}, 0, 0, {}, nil, 0 -- stopped: cancelled since an operator asked
  local back, front = {{}, {}, {}, {}}, {{}, {}, {}, {}}
  local keyed_back, keyed_front = {}, {}

  -- wait_again makes a job retry or pending.
  local function wait_again(id, lease, o, kind, key, delay)
    local priority = string.sub(lease, 1, 1)
    bytes = bytes + redis.call('HSTRLEN', q.bodies[bucket(q, id)], id)
    if kind == 'y' then
      local time, n = up + (delay and tonumber(delay) or 0), #dues
      if not earliest or time < earliest then earliest = time end
      dues[n + 1], dues[n + 2] = int(time), entry(priority, o.next, id, key)
      if key then redis.call('ZADD', q.by_key, 0, key .. '\0' .. id) end
    elseif key then
      local list = (kind == 'f' or is_head(q, key, id)) and keyed_front or keyed_back
      local n = #list
      list[n + 1], list[n + 2], list[n + 3], list[n + 4] = key, priority, o.next, id
    else
      local list = (kind == 'p' and back or front)[tonumber(priority)]
      list[#list + 1] = ready_entry(o.next, id)
    end
  end

  for _, i in ipairs(others) do
    local id, lease, o, delay, tail = ids[i], leases[i], outcome[i], nil, nil
    if extra[i] then delay, tail = unpack(ARGV, extra[i], extra[i] + 1) end
    if not o.head then make_head(o) end
    local kind, state, head, index = o.kind, o.state, o.head, NOTHING
    if asked[i] and o.cancelled then kind, state, head = 'x', CANCELLED, o.cancelled end
    if tail then head = head .. tail end
    if #lease > #o.fence + 1 then index = parse_index(string.sub(lease, #o.fence + 2)) end
    local key = index[KEY]
    if key then end_lease(key, id) end
    if kind == o.kind then o.ends = (o.ends or 0) + 1 else stopped = stopped + 1 end
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
        release_unique(q, index, id)
        bury(q, id, up, redis.call('HGET', q.bodies[bucket(q, id)], id), head)
        if key then
          unlist(q, key, id, true)
          died(q, key, id)
        end
      else
        wait_again(id, lease, o, kind, key, delay)
      end
    end
    verdicts[i - skip] = tostring(state)
  end
  for _, o in pairs(outcomes) do
    if o.ends then count_ends_of(o.ends, o.kind, o.charge) end
  end
  if stopped > 0 then count_ends_of(stopped, 'x') end
  if stored > 0 then redis.call('HSET', q.heads, unpack(heads)) end
  if bytes > 0 then redis.call('HINCRBY', q.record, 'bytes', bytes) end
  release_slots(q)
  local claimable = add_keyed(q, keyed_back)
  claimable = add_keyed(q, keyed_front, true) or claimable
  claimable = write_keys(q) or claimable
  if #dues > 0 then
    local due = next_due(q)
    claimable = claimable or not due or earliest < due
    add_guarded(q.retry, dues)
  end
  claimable = push_ready(q, back, front) or claimable
  if claimable then wake(q) end
end
