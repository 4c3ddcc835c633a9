-- examine_entries: examine a page of a ready list or of a sorted set of jobs, the jobs whose entry
-- was not seen, or the sizes of all structures.
--
-- KEYS   record heads leases lease_counts workers unreclaimed unique by_key ended_keys scheduled retry
--        dead causes suppressed completed cancelled lapses void_entries held key_pieces key_spans rings* blocked rechecked
--        active_keys key_policies key_rates key_heads ready* token bodies*
-- ARGV   now queues buckets part cursor most repair more*
--        (part: "ready", "scheduled", "retry", "dead", "completed", "cancelled", "suppressed", "causes",
--        "lost", "sizes", "twins", "voids"; most: records; repair: 1 to repair; more, for "lost":
--        the tail of the head of a job that dies, then the jobs, as examine_jobs.lua lists them;
--        for "twins": the priority and ready entry of each)
-- Reply  {0, now, cursor, records, told, then per finding: code, ID, what is
--        wrong, 1 if repaired, why not}; told is, for "ready", "scheduled", "retry": the creation time,
--        priority and ready entry of jobs seen; for "sizes": the numbers of jobs and of entries
-- @include clock
-- @include open
-- @include examine
-- @include pages
-- @include release_unique
-- @include append_ready
-- @include wake
-- @include inspect_job
-- @include bury

local q, m = open('paused', 'void', 'keyed', 'flow')
if q.refused then return q.refused end
q.paused = m.paused == '1'
read_limits(q, m.flow)

-- void makes an entry of a ready list void, so that a claim drops it.
local function void(p, t)
  redis.call('HINCRBY', q.void_entries, p .. t, 1)
  redis.call('HINCRBY', q.record, 'void', 1)
end

-- see adds a job to told, since its entry was seen.
local function see(body, s) told[#told + 1] = string.sub(body, 1, 8) .. s.priority .. s.ready_entry end

local NOBODY = '?' -- a void entry that belongs to no job

-- examine_list examines a page of a ready list.
local function examine_list()
  local p, offset = 1, 0
  if cursor ~= '' then p, offset = tonumber(string.sub(cursor, 1, 1)), tonumber(string.sub(cursor, 2)) end
  local page = redis.call('LRANGE', q.ready[p], int(offset), int(offset + most - 1))
  local counts, seen = {}, {}
  if #page > 0 and redis.call('HLEN', q.void_entries) > 0 then
    local fields = {}
    for i, t in ipairs(page) do fields[i] = p .. t end
    counts = redis.call('HMGET', q.void_entries, unpack(fields))
  end
  for i, t in ipairs(page) do
    records = records + 1
    local id = (string.byte(t) == 1 and string.match(t, '^.%d+:(.+)$')) or (string.byte(t) ~= 1 and t ~= '' and t)
    local body = id and body_of(q, id)
    if not id then
      found('entry-malformed', t, 'an entry in r' .. p .. ' names no job', function()
        -- Replace the entry, and do not remove it: if entries moved, other examinations would miss some.
        redis.call('LSET', q.ready[p], int(offset + i - 1), NOBODY)
        void(p, NOBODY)
      end)
    elseif counts[i] then
      if body then told[#told + 1] = string.sub(body, 1, 8) .. p .. t end
    elseif not body then
      found('entry-without-job', id, 'it is in a ready list and is not stored', function() void(p, t) end)
    else
      local s = look(q, id, body)
      if s.ready_entry ~= t or s.priority ~= p then
        see(body, s)
        found('entry-of-other-epoch', id, 'an entry of it in r' .. p .. ' is of epoch ' .. (string.match(t, '^\1(%d+):') or '0') ..
          ', it should be of epoch ' .. int(s.epoch) .. ' in r' .. s.priority, function()
          local there = s.home ~= 'ready' or is_ready(q, s)
          if there == nil then return LONG end
          if there or s.priority ~= p then
            void(p, t)
            if not there then append_ready(q, s.index, int(s.epoch), id) end
          else
            redis.call('LSET', q.ready[p], int(offset + i - 1), s.ready_entry)
          end
        end)
      elseif s.home ~= 'ready' then
        found('job-listed-twice', id, 'it is among ' .. CALLED[s.home] .. ', as it should be, and in a ready list',
          function() void(p, t) end)
      elseif s.key then
        see(body, s)
        found('job-listed-twice', id, 'it has a key, and is in a ready list of jobs without one', function()
          void(p, t)
          if not is_ready(q, s) then append_ready(q, s.index, int(s.epoch), id) end
        end)
      elseif seen[t] then
        found('job-listed-twice', id, 'it is in its ready list twice', function() void(p, t) end)
      else
        seen[t] = true
        see(body, s)
      end
    end
  end
  if #page == most then return answer(p .. int(offset + most)) end
  if p == 4 then return answer('') end
  return answer((p + 1) .. '0')
end

-- examine_times examines a page of scheduled or retry jobs.
local function examine_times(name, key)
  local page, at = timed(key, cursor, most, '', '')
  for _, e in ipairs(page) do
    records = records + 1
    local id = string.match(e, '^[1-4]%d+:([^\n]+)')
    local body = id and body_of(q, id)
    local function remove() redis.call('ZREM', key, e) end
    if not id then
      found('entry-malformed', e, 'an entry among ' .. CALLED[name] .. ' names no job', remove)
    elseif not body then
      found('entry-without-job', id, 'it is among ' .. CALLED[name] .. ' and is not stored', remove)
    else
      local s = look(q, id, body)
      if s.entry ~= e then
        see(body, s)
        found('entry-of-other-epoch', id, 'its entry among ' .. CALLED[name] .. ' is ' .. string.match(e, '^(%d+):') .. ', it should be ' ..
          string.match(s.entry, '^(%d+):'), function()
          local there = s.home ~= 'ready' or is_ready(q, s)
          if there == nil then return LONG end
          local score = redis.call('ZSCORE', key, e)
          remove()
          if not there then redis.call('ZADD', key, score, s.entry) end
        end)
      end
    end
  end
  return answer(at)
end

local VERSION, SUPPRESSED = 1, 3 -- fields of a head's tail (package broker, head.go)

-- examine_suppressed checks that a dead job is in the set of suppressed jobs exactly if its head says so.
local function examine_suppressed(id)
  local head = redis.call('HGET', q.heads, id)
  if not readable(head) then return end
  local tail = fields(head, string.find(head, ';', 1, true) + 1, #head, SUPPRESSED)
  local out = (tail[SUPPRESSED] or 0) ~= 0
  if tail[VERSION] or out == (redis.call('SISMEMBER', q.suppressed, id) == 1) then return end
  local is, counted = out and '' or 'not ', out and 'not ' or ''
  found('count-differs', id, 'it is ' .. is .. 'suppressed, and is ' .. counted .. 'counted as that', function()
    redis.call(out and 'SADD' or 'SREM', q.suppressed, id)
  end)
end

-- examine_counted examines a page of the set of suppressed jobs.
local function examine_counted()
  local page = redis.call('SSCAN', q.suppressed, cursor == '' and '0' or cursor, 'COUNT', most)
  for _, id in ipairs(page[2]) do
    records = records + 1
    if not redis.call('ZSCORE', q.dead, id) then
      found('count-differs', id, 'it is counted as suppressed, and is not dead', function() redis.call('SREM', q.suppressed, id) end)
    end
  end
  return answer(page[1] == '0' and '' or page[1])
end

-- examine_ended examines a page of jobs that ended.
local function examine_ended(name, key)
  local page, at = timed(key, cursor, most, '', '')
  for _, id in ipairs(page) do
    records = records + 1
    if not body_of(q, id) then
      found('entry-without-job', id, 'it is among ' .. CALLED[name] .. ' and is not stored', function()
        if key == q.dead then unbury(q, id) else redis.call('ZREM', key, id) end
        redis.call('ZREM', q.lapses, 'r' .. id)
      end)
    elseif name == 'dead' then
      examine_suppressed(id)
    end
  end
  return answer(at)
end

local not_such = 'the index of dead jobs by type, reason and error has it, and it is not such a job'

-- causes_now returns the same as causes if the job died at this time, otherwise nothing.
local function causes_now(id, at)
  local head = redis.call('HGET', q.heads, id)
  -- If only the head says that the job is dead, examine_jobs reports that.
  local died_at = redis.call('ZSCORE', q.dead, id) or string.match(head or '', '^%d+,' .. DEAD .. ',(%d+),') or -1
  if tonumber(died_at) == tonumber(at) then return causes(id, at, body_of(q, id) or '', head) end
end

-- examine_errors examines a block of the index of dead jobs by error.
local function examine_errors(block)
  local entries, whole = entries_of(block)
  local right, astray, wrong = {}, {}, {}
  for i, e in ipairs(entries) do
    records = records + 1
    local id = string.sub(e.position, 17)
    local _, message, position = causes_now(id, string.sub(e.position, 1, 16))
    local such = message and error_entry(position, message) == e.text
    local in_order = block_of(q, e.position) == block and (i == 1 or precedes(entries[i - 1].position, e.position))
    if such and in_order then
      right[#right + 1] = e
    else
      wrong[#wrong + 1] = id
      if such then astray[#astray + 1] = {position = position, message = message} end
    end
  end
  if not whole and #wrong == 0 then wrong[1] = #entries > 0 and string.sub(entries[1].position, 17) or block end
  for i, id in ipairs(wrong) do
    found('dead-index-entry-without-job', id, not_such, function()
      if i > 1 then return end -- the first repair has already stored all correct entries
      redis.call('ZREM', q.causes, block)
      put_block(q, right)
      for _, e in ipairs(astray) do add_error(q, e.position, e.message) end
    end)
  end
end

-- examine_causes examines a page of the index of dead jobs by type, reason and error.
local function examine_causes()
  local page = redis.call('ZRANGE', q.causes, cursor == '' and '-' or '(' .. cursor, '+', 'BYLEX', 'LIMIT', 0, most)
  for i, member in ipairs(page) do
    if string.sub(member, 1, #ERRORS) == ERRORS then
      examine_errors(member)
    else
      records = records + 1
      local at, id = string.match(member, '^[rt][^%z]*%z(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d)(.+)$')
      local known = false
      for _, right in ipairs(id and causes_now(id, at) or {}) do known = known or right == member end
      if not known then
        found('dead-index-entry-without-job', id or member, not_such, function()
          redis.call('ZREM', q.causes, member)
        end)
      end
    end
    if records >= most and i < #page then return answer(member) end
  end
  return answer(#page < most and '' or page[#page])
end

-- examine_lost looks again at jobs whose ready entries were not found in the ready lists. If such a job
-- has not changed since, no entry leads to it.
local function examine_lost()
  local death, first_job = ARGV[first.more], first.more + 1
  for i = first_job, #ARGV do
    records = records + 1
    local born, p, t = string.sub(ARGV[i], 1, 8), tonumber(string.sub(ARGV[i], 9, 9)), string.sub(ARGV[i], 10)
    local id = id_of_ready(t)
    local body = body_of(q, id)
    local s = body and string.sub(body, 1, 8) == born and look(q, id, body)
    if s and s.home == 'ready' and s.ready_entry == t and s.priority == p and not (s.key and is_ready(q, s)) then
      local dies = s.state == SCHEDULED
      local what = dies and 'it was rescheduled, and its time is lost' or 'it is to be pending, and is in no ready list'
      found('job-without-entry', id, what, function()
        -- Raise the epoch, so that another examination does not repair the job again.
        local head, epoch = redis.call('HGET', q.heads, id), int(s.epoch + 1)
        if dies then
          release_unique(q, s.index, id)
          head = moved_head(head, s.epoch + 1, DEAD, int(up), 0) .. death
          redis.call('HSET', q.heads, id, head)
          bury(q, id, up, body, head)
          if s.key then
            redis.call('ZREM', q.by_key, s.key .. '\0' .. id)
            redis.call('ZADD', q.ended_keys, 0, s.key .. '\0' .. id)
          end
        else
          redis.call('HSET', q.heads, id, moved_head(head, s.epoch + 1, PENDING, '0', 0))
          append_ready(q, s.index, epoch, id)
          wake(q)
        end
      end)
    end
  end
  return answer('')
end

local MANY = 5000 -- larger structures are not compared, since that would take too long

-- leases compares the number of each worker's leases with the stored count.
local function leases()
  if redis.call('HLEN', q.leases) > MANY then return end
  local held, counted = {}, {}
  local all = redis.call('HGETALL', q.leases)
  for i = 1, #all, 2 do
    local worker = string.match(all[i + 1], '^%d+:(.-)\n')
    if all[i] ~= '' and (worker or '') ~= '' then held[worker] = (held[worker] or 0) + 1 end
  end
  local known = redis.call('HGETALL', q.lease_counts)
  for i = 1, #known, 2 do
    if known[i] ~= '' then counted[known[i]] = tonumber(known[i + 1]) end
  end
  for _, worker in ipairs(redis.call('HKEYS', q.workers)) do
    if worker ~= '' then held[worker] = held[worker] or 0 end
  end
  for worker in pairs(counted) do held[worker] = held[worker] or 0 end
  for worker, n in pairs(held) do
    -- If the count of an ended worker is too high, Reclaim corrects it.
    local ended = redis.call('HEXISTS', q.unreclaimed, worker) == 1
    local live = redis.call('HEXISTS', q.workers, worker) == 1
    local wrong = counted[worker] ~= n
    if ended then wrong = (counted[worker] or 0) < n elseif not live then wrong = n == 0 and (counted[worker] or 0) ~= 0 end
    if wrong then
      found('lease-count-differs', worker, 'it has ' .. n .. ' leases, ' .. (counted[worker] or 'none') .. ' are counted', function()
        redis.call('HSET', q.lease_counts, worker, n)
      end)
    end
  end
end

-- sizes compares the number of jobs with the number of their entries.
local function sizes()
  records = 1
  leases()
  local void_entries = tonumber(m.void or 0)
  if redis.call('HLEN', q.void_entries) <= MANY then
    local sum = 0
    for _, n in ipairs(redis.call('HVALS', q.void_entries)) do sum = sum + tonumber(n) end
    if sum ~= void_entries then
      found('count-differs', 'void', int(sum) .. ' entries are void, ' .. int(void_entries) .. ' are counted', function()
        redis.call('HSET', q.record, 'void', int(sum))
      end)
      void_entries = sum
    end
  end
  local keyed = tonumber(m.keyed or 0)
  if redis.call('HLEN', q.key_spans) <= MANY then
    local sum = 0
    for _, span in ipairs(redis.call('HVALS', q.key_spans)) do sum = sum + span_of(span).n end
    if sum ~= keyed then
      found('count-differs', 'keyed', int(sum) .. ' jobs with a key are pending, ' .. int(keyed) .. ' are counted', function()
        redis.call('HSET', q.record, 'keyed', int(sum))
      end)
      keyed = sum
    end
  end
  local jobs, places = 0, keyed - void_entries
  for b = 1, q.buckets do jobs = jobs + redis.call('HLEN', q.bodies[b]) end
  for p = 1, 4 do places = places + redis.call('LLEN', q.ready[p]) end
  for _, key in ipairs({q.scheduled, q.retry}) do
    places = places + redis.call('ZCARD', key) - (redis.call('ZSCORE', key, GUARD) and 1 or 0)
  end
  places = places + redis.call('HLEN', q.leases) - redis.call('HEXISTS', q.leases, '')
  for _, key in ipairs({q.dead, q.completed, q.cancelled}) do places = places + redis.call('ZCARD', key) end
  told = {jobs, places}
  return answer('')
end

-- twins looks for entries that are in a ready list more than once.
local function twins()
  for i = first.more, #ARGV do
    records = records + 1
    local p, t = tonumber(string.sub(ARGV[i], 1, 1)), string.sub(ARGV[i], 2)
    local n = #redis.call('LPOS', q.ready[p], t, 'COUNT', 0, 'MAXLEN', LOOK) - tonumber(redis.call('HGET', q.void_entries, p .. t) or 0)
    if n > 1 then
      found('job-listed-twice', id_of_ready(t), 'it is in its ready list ' .. n .. ' times', function()
        for _ = 2, n do void(p, t) end
      end)
    end
  end
  return answer('')
end

-- voids looks for counts of void entries that are in no list. Its pages are smaller than those of other
-- parts, so that they do not take longer.
local function voids()
  local all = 0
  for p = 1, 4 do all = all + redis.call('LLEN', q.ready[p]) end
  local page, at = scanned(q.void_entries, cursor, math.max(1, math.min(most, math.floor(LOOK / (all + 1)))))
  for _, field in ipairs(page) do
    local counted = tonumber(field[2])
    local p, t = string.match(field[1], '^([1-4])(.+)$')
    local there = 0
    if p then there = #redis.call('LPOS', q.ready[tonumber(p)], t, 'COUNT', 0, 'MAXLEN', LOOK) end
    if there < counted and (not p or redis.call('LLEN', q.ready[tonumber(p)]) <= LOOK) then
      found('void-mark-without-entry', t or field[1], counted .. ' entries of it count as void, ' .. there .. ' are in its list', function()
        if there == 0 then redis.call('HDEL', q.void_entries, field[1]) else redis.call('HSET', q.void_entries, field[1], there) end
        redis.call('HINCRBY', q.record, 'void', there - counted)
      end)
    end
  end
  return answer(at)
end

local timed_sets = {scheduled = q.scheduled, retry = q.retry}
local ended_sets = {dead = q.dead, completed = q.completed, cancelled = q.cancelled}
if timed_sets[part] then return examine_times(part, timed_sets[part]) end
if ended_sets[part] then return examine_ended(part, ended_sets[part]) end
return ({ready = examine_list, causes = examine_causes, suppressed = examine_counted, lost = examine_lost, twins = twins, sizes = sizes,
  voids = voids})[part]()
