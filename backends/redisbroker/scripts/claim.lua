-- claim: lease jobs to a worker, from the shares of a claim in their order.
--
-- KEYS   record workers void_entries heads leases lease_counts unique by_key scheduled retry held key_pieces
--        key_spans rings* blocked rechecked active_keys key_policies key_rates key_heads ready* token idle_hint
--        bodies*   (a block for each queue)
-- ARGV   now queues buckets* worker most_jobs most_bytes many shares*
--        (most_bytes: of bodies and heads, at which the answer ends; many: how many queues a claim has
--        that is made in several calls, which leave hints about queues that have nothing, or 0; per
--        share: the number of its queue, and its most jobs)
-- Reply  {0, now, then per queue: a refusal, or {0, 1 when more is left, next due time or -1, jobs
--        claimed from it so far, 1 when the claim took a wake token}; then per share a list of triples:
--        IDs; bodies, false for a job that does not exist; and a list of the number of each job that has
--        a head, and the head}
-- @include clock
-- @include open
-- @include read
-- @include free_unique
-- @include emptied
-- @include head
-- @include claimable
-- @include any_keyed
-- @include big

local VOIDS = 1000    -- entries dropped in one call: void ones, and those of jobs that do not exist
local MEASURED = 32   -- jobs whose sizes are read at a time

local sub, byte, find = string.sub, string.byte, string.find
local worker, most, room = args.worker, tonumber(args.most_jobs), tonumber(args.most_bytes)
local queues = {}
for i = 1, tonumber(args.queues) do
  local q, m = open('paused', 'void', 'big', 'priority_round', 'turn', 'flow', 'claimed')
  if not q.refused and redis.call('HEXISTS', q.workers, worker) == 0 then q.refused = {GONE} end
  q.void, q.dropped = tonumber(m.void or 0), 0
  q.big, q.claimed, q.called = biggest(m.big), tonumber(m.claimed or 0), 0
  q.leased, q.bytes, q.drained = 0, 0, {}
  queues[i] = q
  read_rules(q, m)
end

-- valid drops the ready entries in a list that operators made void.
local dropped = 0
local function valid(q, p, entries)
  local fields = {}
  for i, t in ipairs(entries) do fields[i] = p .. t end
  local counts = redis.call('HMGET', q.void_entries, unpack(fields))
  local kept, left = {}, {}
  for i, field in ipairs(fields) do
    local n = left[field] or tonumber(counts[i] or 0)
    if n == 0 then
      kept[#kept + 1] = entries[i]
    else
      left[field] = n - 1
      q.dropped, dropped = q.dropped + 1, dropped + 1
      if n == 1 then redis.call('HDEL', q.void_entries, field) else redis.call('HINCRBY', q.void_entries, field, -1) end
    end
  end
  return kept
end

local total = 0
-- lease leases jobs of priority p to the worker and adds them to the answer. It returns how many exist.
-- epochs has those above zero, each followed by a colon. A lease is priority .. epoch .. ":" .. worker
-- .. "\n" .. index, where the index is what the job's end has to free, mostly nothing.
local function lease(q, p, ids, epochs, jobs)
  local fresh = p .. '0:' .. worker .. '\n'
  local aged = {} -- only those have a head
  if epochs then
    for i = 1, #ids do
      if epochs[i] then aged[#aged + 1] = ids[i] end
    end
  end
  local found, some, a = bodies(q, ids), #aged > 0 and redis.call('HMGET', q.heads, unpack(aged)), 0
  local heads, set, s, size, stored = {}, {}, 0, 0, 0
  for i = 1, #ids do
    local id, body, value = ids[i], found[i], fresh
    if epochs and epochs[i] then
      a = a + 1
      value = p .. epochs[i] .. worker .. '\n'
      local head = some[a]
      if head and not body then body = emptied(q, id) end
      if body then
        if not readable(head) then head = epochs[i] .. (head or '') end
        local h = #heads
        heads[h + 1], heads[h + 2] = i, head
        size = size + #head
      end
      found[i] = body
    end
    if body then
      if byte(body, 10) ~= 0 then
        local index_size = byte(body, 10) or 128 -- nothing, where the body is lost
        local index = index_size < 128 and index_size + 10 <= #body and sub(body, 11, index_size + 10) or index_of(body)
        if #index ~= 2 or byte(index) ~= 2 * PRIORITY then
          value = value .. index
          if byte(index) == 2 * UNIQUE_KEY + 1 then
            local f = parse_index(index)
            if f[UNIQUE_MODE] == UNTIL_STARTED then free_unique(q, f, id) end
          end
        end
      end
      set[s + 1], set[s + 2], s = id, value, s + 2
      stored = stored + #body
    else
      dropped = dropped + 1
    end
  end
  room = room - size - stored
  q.bytes = q.bytes + stored
  local n = #jobs
  jobs[n + 1], jobs[n + 2], jobs[n + 3] = ids, found, heads
  if s > 0 then redis.call('HSET', q.leases, unpack(set)) end
  q.leased, total = q.leased + s / 2, total + s / 2
  return s / 2
end

-- epochs_of replaces ready entries by their IDs and returns the epochs, if there are any.
local function epochs_of(entries)
  local epochs
  for i = 1, #entries do
    local t = entries[i]
    if byte(t) == 1 then
      epochs = epochs or {}
      local colon = find(t, ':', 2, true)
      entries[i], epochs[i] = sub(t, colon + 1), sub(t, 2, colon)
    end
  end
  return epochs
end

-- fits returns how many of these jobs fit in the answer.
local function fits(q, ids, epochs)
  local left = room
  for i, id in ipairs(ids) do
    if left <= 0 then return i - 1 end
    left = left - redis.call('HSTRLEN', q.bodies[bucket(q, id)], id)
    if epochs and epochs[i] then left = left - redis.call('HSTRLEN', q.heads, id) end
  end
  return #ids
end

-- fitting returns how many jobs may be taken at once: 0 when the answer is full. If they fit even when
-- all are as large as the largest, their sizes are not read; else look returns the next n jobs.
local function fitting(q, want, look)
  if room <= 0 then return 0 end
  local n = math.floor(room / q.big)
  if n >= math.min(want, MEASURED) then return math.min(want, n) end
  return fits(q, look(math.min(want, MEASURED)))
end

-- take_of leases jobs of priority p without regard to keys. It returns how many: less than it wants
-- when there are no more, or at a bound of the call.
local function take_of(q, p, want, jobs)
  local taken = 0
  while taken < want and not q.drained[p] do
    local n = fitting(q, want - taken, function(n)
      local entries = redis.call('LRANGE', q.ready[p], -n, -1)
      local next = {}
      for i = #entries, 1, -1 do next[#next + 1] = entries[i] end
      return next, epochs_of(next)
    end)
    if n < 1 then
      if room <= 0 then return taken end
      q.drained[p] = true
      break
    end
    local entries = redis.call('RPOP', q.ready[p], n) or {}
    if #entries < n then q.drained[p] = true end
    if #entries > 0 and q.void > q.dropped then entries = valid(q, p, entries) end
    if #entries > 0 then taken = taken + lease(q, p, entries, epochs_of(entries), jobs) end
    if dropped >= VOIDS then return taken end
  end
  local late = q.promoted and q.promoted[p]
  while taken < want and late and late.taken < #late.ids do
    local from = late.taken + 1
    local n = fitting(q, math.min(want - taken, #late.ids - late.taken), function(n)
      local upto = math.min(late.taken + n, #late.ids)
      return {unpack(late.ids, from, upto)}, {unpack(late.epochs, from, upto)}
    end)
    if n < 1 then return taken end
    late.taken = late.taken + n
    taken = taken + lease(q, p, {unpack(late.ids, from, late.taken)}, {unpack(late.epochs, from, late.taken)}, jobs)
  end
  return taken
end

-- full reports whether the call is at a bound: of bytes, or of entries dropped.
local function full() return room <= 0 or dropped >= VOIDS end

-- rare returns the functions for jobs that fall due and for jobs with a key. Most claims need none of them and do not
-- make them, which would take a third of the time of a claim of one job.
local made
local function rare()
  if not made then
    -- @include promote
    -- @include turns
    made = {promote = promote, put_back = put_back, take_turns = take_turns, unblock = unblock, in_rings = in_rings,
      next_unblocked = next_unblocked}
  end
  return made
end

-- look_at_keys finds out whether jobs with a key are pending, and moves keys that may start one again
-- back to the rings. Most queues have no such jobs, and only jobs of normal priority.
local function look_at_keys(q)
  local rechecked = q.rechecked -- counts 4, each ready list 1
  local there = redis.call('EXISTS', q.ready[1], q.ready[3], q.ready[4], rechecked, rechecked, rechecked, rechecked)
  local recheck = there >= 4
  q.keyed = any_keyed(q)
  if there % 4 == 0 then q.drained[1], q.drained[3], q.drained[4] = true, true, true end
  if not q.keyed then return end
  q.unblocks = rare().next_unblocked(q)
  if recheck or q.unblocks and q.unblocks <= now then rare().unblock(q, recheck) end
end

-- serve leases the jobs of a share.
local function serve(q, most_of_share)
  local jobs = {}
  if not claimable(q) then return jobs end
  local want = math.min(most - total, most_of_share, q.allowed - q.leased)
  if want > 0 and not full() then
    if not q.promoted and any_due(q) then rare().promote(q, want, math.max(#queues, tonumber(args.many))) end
    take_next(q, want, jobs, q.keyed and rare().take_turns or take_of, full)
  end
  return jobs
end

for _, q in ipairs(queues) do
  if claimable(q) then look_at_keys(q) end
end
local shares = {}
for at = first.shares, #ARGV, 2 do
  local number, most_of_share = unpack(ARGV, at, at + 1)
  shares[#shares + 1] = serve(queues[tonumber(number)], tonumber(most_of_share))
end

-- token leaves a wake token if something is claimable now, and removes it otherwise, so that no wait
-- ends without a job. It returns 1 or 0 for that. It also leaves a token when this claim has found
-- that a job will be claimable sooner than waiting claims know.
local function token(q)
  local ready = q.dropped - q.void
  for p = 1, 4 do
    if not q.drained[p] then ready = ready + redis.call('LLEN', q.ready[p]) end
  end
  local sooner = q.refused and not q.paused and next_due(q) ~= nil -- the token may have been about a due time
  if q.keyed == nil then q.keyed = any_keyed(q) end
  if q.keyed then
    ready = ready + rare().in_rings(q) + redis.call('EXISTS', q.rechecked) + (q.unsettled and 1 or 0)
    local before = q.unblocks
    q.unblocks = rare().next_unblocked(q)
    sooner = sooner or q.leased > 0 and q.unblocks and (not before or before <= now or q.unblocks < before)
  end
  local more = any_left(q, ready) and 1 or 0
  if q.opens and q.leased > 0 then sooner = sooner or ready > 0 or any_due(q) end
  if more == 0 and not sooner then
    q.called = redis.call('DEL', q.token)
    redis.call('DEL', q.idle_hint)
  elseif redis.call('LLEN', q.token) == 0 then
    if total == 0 then redis.call('DEL', q.token) end -- a full server lets a script go on that removed something
    redis.call('LPUSH', q.token, '1')
  end
  q.waiting = ready
  if q.opens and q.leased == 0 and ready > 0 then redis.call('HSET', q.record, 'told', int(q.opens)) end
  return more
end

-- next_time returns when a job may be claimable, if only time decides, or -1.
local function next_time(q)
  if q.paused or q.allowed <= 0 and not q.opens then return -1 end
  if q.opens and q.waiting > 0 then return q.opens end
  local at = q.unblocks and q.due and math.min(q.unblocks, q.due) or q.unblocks or q.due
  return at and math.max(at, q.opens or at) or -1
end

-- A hint that a queue has nothing holds for some seconds: a token may be lost with the claim that took
-- it, and then jobs wait no longer than that. Hints that are left together end one after the other.
local HINT, APART = 8000000, 37000 -- in µs

-- close writes what the claim changed in a queue, and returns its part of the answer.
local function close(i, q)
  if q.promoted then rare().put_back(q) end
  if q.refused then
    if q.refused[1] == GONE then token(q) end -- this call may have taken the token of another claim
    return q.refused
  end
  if q.leased > 0 then
    redis.call('HINCRBY', q.lease_counts, worker, q.leased)
    redis.call('HINCRBY', q.record, 'claimed', q.leased)
    if q.bytes > 0 then redis.call('HINCRBY', q.record, 'bytes', -q.bytes) end
  end
  count_claimed(q, q.leased)
  if q.dropped > 0 then redis.call('HINCRBY', q.record, 'void', -q.dropped) end
  local more, at = token(q), next_time(q)
  -- A worker that has no room left will not look when the next job falls due: another one is to.
  if more == 0 and at > now and total > 0 and total >= most and redis.call('LLEN', q.token) == 0 then
    redis.call('LPUSH', q.token, '1')
  end
  if more == 0 and args.many ~= '0' then redis.call('SET', q.idle_hint, int(at) .. ' ' .. int(now + HINT + i * APART)) end
  return {0, more, at, q.claimed + q.leased, q.called}
end

local reply = {0, now}
for i, q in ipairs(queues) do reply[i + 2] = close(i, q) end
for _, jobs in ipairs(shares) do reply[#reply + 1] = jobs end
return reply
