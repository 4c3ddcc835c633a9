-- claim: lease jobs to a worker, from the shares of a claim in their order.
--
-- KEYS   record workers void_turns heads leases lease_counts unique scheduled retry ready* token
--        bodies*   (a block for each queue)
-- ARGV   now queues buckets* worker most_jobs most_bytes shares*
--        (most_bytes: of bodies and heads, at which the answer ends; per share: the number of its
--        queue, its most jobs)
-- Reply  {0, now, then per queue: a refusal, or {0, 1 when more is left, next
--        due time or -1}; then per share so many times as it takes: IDs,
--        bodies, which are empty where there is no such job, and a list of the
--        number of each job that has a head, and the head}
-- @include clock
-- @include open
-- @include read
-- @include unhold
-- @include emptied
-- @include head
-- @include claimable
-- @include big

local PROMOTED = 1000 -- due jobs moved in one call beyond those that it leases, in all queues
local VOIDS = 1000    -- void turns dropped in one call
local MEASURED = 32   -- jobs whose sizes are asked for at a time

local sub, byte, find = string.sub, string.byte, string.find
local worker, most, room = args.worker, tonumber(args.most_jobs), tonumber(args.most_bytes)
local queues = {}
for i = 1, tonumber(args.queues) do
  local q, m = open('paused', 'void', 'big', 'priority_round', 'turn')
  if not q.refused and redis.call('HEXISTS', q.workers, worker) == 0 then q.refused = {GONE} end
  q.void, q.dropped = tonumber(m.void or 0), 0
  q.big = biggest(m.big)
  q.leased, q.drained = 0, {}
  queues[i] = q
  read_rules(q, m)
end

-- promote makes pending the jobs that are due, earliest first: it takes them
-- out of the sets into q.late, by priority, behind all that is in the ready
-- lists. Those that this call does not lease go there in the end. A queue has so
-- many moved as the share wants, and its part of PROMOTED: in all that is not many
-- more than are leased.
local function promote(q, want)
  local z, y = due(q.scheduled), due(q.retry)
  local most = math.min(PROMOTED, want + math.ceil(PROMOTED / #queues))

  -- overdue lists due entries of a set, with their times if another is to be
  -- merged with it.
  local function overdue(key, with_times)
    if with_times then
      return redis.call('ZRANGEBYSCORE', key, '-inf', int(now), 'WITHSCORES', 'LIMIT', 0, most)
    end
    return redis.call('ZRANGEBYSCORE', key, '-inf', int(now), 'LIMIT', 0, most)
  end

  local all, of_z, of_y = {}, 0, 0
  if z and y and math.max(z, y) <= now then
    local zs, ys = overdue(q.scheduled, true), overdue(q.retry, true)
    while #all < most and (zs[2 * of_z + 1] or ys[2 * of_y + 1]) do
      local a, b = tonumber(zs[2 * of_z + 2]), tonumber(ys[2 * of_y + 2])
      if a and (not b or a <= b) then
        of_z = of_z + 1
        all[#all + 1] = zs[2 * of_z - 1]
      else
        of_y = of_y + 1
        all[#all + 1] = ys[2 * of_y - 1]
      end
    end
  elseif q.due == z then
    all = overdue(q.scheduled)
    of_z = #all
  else
    all = overdue(q.retry)
    of_y = #all
  end
  if of_z > 0 then redis.call('ZREMRANGEBYRANK', q.scheduled, 0, of_z - 1) end
  if of_y > 0 then redis.call('ZREMRANGEBYRANK', q.retry, 0, of_y - 1) end
  q.late = {}
  for p = 1, 4 do q.late[p] = {ids = {}, epochs = {}, taken = 0} end
  for _, entry in ipairs(all) do
    local late, colon = q.late[byte(entry) - 48], find(entry, ':', 3, true)
    local n = #late.ids + 1
    late.ids[n] = sub(entry, colon + 1)
    late.epochs[n] = byte(entry, 2) ~= 48 and sub(entry, 2, colon) -- a zero begins only "0:"
  end
  q.due = next_due(q)
end

-- put_back adds what is left of q.late to the ready lists.
local function put_back(q)
  for p = 1, 4 do
    local late, turns = q.late[p], {}
    for i = late.taken + 1, #late.ids do
      turns[#turns + 1] = late.epochs[i] and '\1' .. late.epochs[i] .. late.ids[i] or late.ids[i]
    end
    if #turns > 0 then
      redis.call('LPUSH', q.ready[p], unpack(turns))
      q.drained[p] = false
    end
  end
end

-- valid drops the turns in a list that operators made void.
local dropped = 0
local function valid(q, p, turns)
  local fields = {}
  for i, t in ipairs(turns) do fields[i] = p .. t end
  local counts = redis.call('HMGET', q.void_turns, unpack(fields))
  local kept, left = {}, {}
  for i, field in ipairs(fields) do
    local n = left[field] or tonumber(counts[i] or 0)
    if n == 0 then
      kept[#kept + 1] = turns[i]
    else
      left[field] = n - 1
      q.dropped, dropped = q.dropped + 1, dropped + 1
      if n == 1 then redis.call('HDEL', q.void_turns, field) else redis.call('HINCRBY', q.void_turns, field, -1) end
    end
  end
  return kept
end

local total = 0
-- lease records the worker as the holder of jobs of priority p and adds them to
-- the answer; epochs has those above zero, with a colon behind. The lease is
-- priority .. epoch .. ":" .. worker .. "\n" .. index, where the index is what
-- the job's end has to free, mostly nothing.
local function lease(q, p, ids, epochs, jobs)
  local fresh = p .. '0:' .. worker .. '\n'
  local aged = {} -- only those have a head
  if epochs then
    for i = 1, #ids do
      if epochs[i] then aged[#aged + 1] = ids[i] end
    end
  end
  local found, some, a = bodies(q, ids), #aged > 0 and redis.call('HMGET', q.heads, unpack(aged)), 0
  local heads, set, s, size = {}, {}, 0, 0
  for i = 1, #ids do
    local id, body, value = ids[i], found[i], fresh
    if epochs and epochs[i] then
      a = a + 1
      value = p .. epochs[i] .. worker .. '\n'
      local head = some[a]
      if head and not body then body = emptied(q, id) end
      if body then
        if not legible(head) then head = epochs[i] .. (head or '') end
        local h = #heads
        heads[h + 1], heads[h + 2] = i, head
        size = size + #head
      end
      found[i] = body
    end
    if body then
      if byte(body, 10) ~= 0 then
        local index = index_of(body)
        if #index ~= 2 or byte(index) ~= 2 * PRIORITY then
          value = value .. index
          if byte(index) == 2 * UNIQUE_KEY + 1 then
            local f = parse_index(index)
            if f[UNIQUE_MODE] == UNTIL_STARTED then unhold(q, f, id) end
          end
        end
      end
      set[s + 1], set[s + 2], s = id, value, s + 2
      size = size + #body
    end
  end
  room = room - size
  local n = #jobs
  jobs[n + 1], jobs[n + 2], jobs[n + 3] = ids, found, heads
  if s > 0 then redis.call('HSET', q.leases, unpack(set)) end
  q.leased, total = q.leased + s / 2, total + s / 2
  return s / 2
end

-- epochs_of makes turns the IDs they stand for and returns the epochs, if any.
local function epochs_of(turns)
  local epochs
  for i = 1, #turns do
    local t = turns[i]
    if byte(t) == 1 then
      epochs = epochs or {}
      local colon = find(t, ':', 2, true)
      turns[i], epochs[i] = sub(t, colon + 1), sub(t, 2, colon)
    end
  end
  return epochs
end

-- fits is how many of these jobs come before the answer is full.
local function fits(q, ids, epochs)
  local left = room
  for i, id in ipairs(ids) do
    if left <= 0 then return i - 1 end
    left = left - redis.call('HSTRLEN', q.bodies[bucket(q, id)], id)
    if epochs and epochs[i] then left = left - redis.call('HSTRLEN', q.heads, id) end
  end
  return #ids
end

-- few is how many jobs may be taken at once: 0 when the answer is full. As long
-- as so many would fit if all were as large as the largest, sizes are not asked
-- for; else look says which the next n jobs are.
local function few(q, want, look)
  if room <= 0 then return 0 end
  local n = math.floor(room / q.big)
  if n >= math.min(want, MEASURED) then return math.min(want, n) end
  return fits(q, look(math.min(want, MEASURED)))
end

-- take_of takes jobs of priority p, and returns how many it leased: less than it
-- wants when there are no more, or at a bound of the call.
local function take_of(q, p, want, jobs)
  local taken = 0
  while taken < want and not q.drained[p] do
    local n = few(q, want - taken, function(n)
      local turns = redis.call('LRANGE', q.ready[p], -n, -1)
      local next = {}
      for i = #turns, 1, -1 do next[#next + 1] = turns[i] end
      return next, epochs_of(next)
    end)
    if n < 1 then
      if room <= 0 then return taken end
      q.drained[p] = true
      break
    end
    local turns = redis.call('RPOP', q.ready[p], n) or {}
    if #turns < n then q.drained[p] = true end
    if #turns > 0 and q.void > q.dropped then turns = valid(q, p, turns) end
    if #turns > 0 then taken = taken + lease(q, p, turns, epochs_of(turns), jobs) end
    if dropped >= VOIDS then return taken end
  end
  local late = q.late and q.late[p]
  while taken < want and late and late.taken < #late.ids do
    local from = late.taken + 1
    local n = few(q, math.min(want - taken, #late.ids - late.taken), function(n)
      local upto = math.min(late.taken + n, #late.ids)
      return {unpack(late.ids, from, upto)}, {unpack(late.epochs, from, upto)}
    end)
    if n < 1 then return taken end
    late.taken = late.taken + n
    taken = taken + lease(q, p, {unpack(late.ids, from, late.taken)}, {unpack(late.epochs, from, late.taken)}, jobs)
  end
  return taken
end

-- full reports that the call is at a bound: of bytes, or of void turns dropped.
local function full() return room <= 0 or dropped >= VOIDS end

for _, q in ipairs(queues) do
  if claimable(q) then
    -- Most queues have jobs of normal priority only.
    if redis.call('EXISTS', q.ready[1], q.ready[3], q.ready[4]) == 0 then
      q.drained[1], q.drained[3], q.drained[4] = true, true, true
    end
  end
end
local shares = {}
for at = first.shares, #ARGV, 2 do
  local number, most_of_share = unpack(ARGV, at, at + 1)
  local q, jobs = queues[tonumber(number)], {}
  if claimable(q) then
    local want = math.min(most - total, tonumber(most_of_share))
    if want > 0 and not full() then
      if not q.late and any_due(q) then promote(q, want) end
      take_next(q, want, jobs, take_of, full)
    end
  end
  shares[#shares + 1] = jobs
end

-- token leaves a wake token if something is claimable now, and none otherwise,
-- so that no wait ends in vain. It returns 1 or 0 for that.
local function token(q)
  local ready = q.dropped - q.void
  for p = 1, 4 do
    if not q.drained[p] then ready = ready + redis.call('LLEN', q.ready[p]) end
  end
  local more = any_left(q, ready) and 1 or 0
  if more == 0 then
    redis.call('DEL', q.token)
  elseif redis.call('LLEN', q.token) == 0 then
    redis.call('LPUSH', q.token, '1')
  end
  return more
end

local reply = {0, now}
for i, q in ipairs(queues) do
  if q.late then put_back(q) end
  if q.refused then
    reply[i + 2] = q.refused
    if q.refused[1] == GONE then token(q) end -- the one that it took is for somebody else
  else
    if q.leased > 0 then redis.call('HINCRBY', q.lease_counts, worker, q.leased) end
    count_claimed(q, q.leased)
    if q.dropped > 0 then redis.call('HINCRBY', q.record, 'void', -q.dropped) end
    reply[i + 2] = {0, token(q), q.due or -1}
  end
end
for _, jobs in ipairs(shares) do reply[#reply + 1] = jobs end
return reply
