-- examine_jobs: examine a page of the stored jobs or heads, and check that every structure that
-- should lead to a job does.
--
-- KEYS   record heads leases cancels lease_counts unique by_key ended_keys key_pieces key_spans active_keys
--        scheduled retry dead causes completed cancelled lapses held ready* bodies*
-- ARGV   now queues buckets part cursor most repair   (part: "jobs" or "heads"; most: records; repair: 1 to repair)
-- Reply  {0, now, cursor, records, told, then per finding: code, ID, what is
--        wrong, 1 if repaired, why not}; told is the creation time, priority
--        and ready entry of each job that must have one
-- @include clock
-- @include open
-- @include examine
-- @include big
-- @include holder
-- @include retention
-- @include inspect_job
-- @include errors
-- @include taken

local BYTES = 8388608 -- how much one call reads, approximately

local q, m = open('big', 'keep_completed')
if q.refused then return q.refused end
local big = biggest(m.big)
-- A page is so short that it does not exceed BYTES even if all its jobs are as large as the queue's largest
-- job ever was. A call reads pages until it has read BYTES.
local a_page, read = math.max(1, math.min(most, math.floor(BYTES / big))), 0

-- unlease removes a job's lease.
local function unlease(id, lease)
  local _, _, worker = holder(lease)
  redis.call('HDEL', q.cancels, id)
  redis.call('HDEL', q.leases, id)
  local key = string.find(lease, '^%d+:.*\n') and parse_index(select(4, holder(lease)))[KEY]
  if key then redis.call('ZREM', q.active_keys, key .. '\0' .. id) end
  if worker ~= '' and tonumber(redis.call('HGET', q.lease_counts, worker) or 0) > 0 then
    redis.call('HINCRBY', q.lease_counts, worker, -1)
  end
end

-- places checks that a job is in its home structure (see inspect_job), and in no other one.
local function places(id, head, s)
  local function extra(where, remove)
    found('job-listed-twice', id, 'it is among ' .. CALLED[s.home] .. ', as it should be, and among ' .. CALLED[where], remove)
  end
  if s.lease and s.home ~= 'leases' then extra('leases', function() unlease(id, s.lease) end) end
  for name, key in pairs({scheduled = q.scheduled, retry = q.retry}) do
    if s[name] and s.home ~= name then extra(name, function() redis.call('ZREM', key, s.entry) end) end
  end
  for state, name in pairs(HOME) do
    local key = state == DEAD and q.dead or state == COMPLETED and q.completed or q.cancelled
    if s[name] and s.home ~= name then
      if s.home == 'ready' and is_ready(q, s) == false then
        s.home = name
        found('head-differs', id, 'it is among ' .. CALLED[name] .. ' and nowhere else, and its head says another state', function()
          redis.call('HSET', q.heads, id, moved_head(head, s.epoch, state, int(tonumber(s[name])), 0))
        end)
      else
        extra(name, function()
          redis.call('ZREM', key, id)
          redis.call('ZREM', q.lapses, 'r' .. id)
        end)
      end
    elseif s.home == name and not s[name] then
      local at = s.finished > 0 and s.finished or up
      found('job-without-entry', id, 'it ended, and is not among ' .. CALLED[name], function()
        redis.call('ZADD', key, int(at), id)
      end)
    end
  end
end

-- unique checks that a job holds the unique key that it must hold.
local function unique(id, body, s)
  local key, mode = s.index[UNIQUE_KEY], s.index[UNIQUE_MODE]
  if not key or mode == WINDOW or HOME[s.state] then return end
  local till = (s.index[UNIQUE_TTL] or 0) / 2
  if till > 0 then
    till = created(body) + till
    if till <= now then return end
  end
  if mode == UNTIL_STARTED and (s.home == 'leases' or s.deliveries > 0) then return end
  local held = redis.call('HGET', q.unique, key)
  local other = holder_of(held)
  if held and string.match(held, '^%d+:([^\n]*)') == id or other and waits_behind(q, id, other) then return end
  found('unique-key-not-held', id, other and 'job ' .. other .. ' holds its unique key' or 'no job holds its unique key', function()
    if other then return 'the other job has it' end
    redis.call('HSET', q.unique, key, int((mode or 0) / 2) .. int(till) .. ':' .. id)
  end)
end

-- of_key checks that a job with a key is in the set for its state, and in no other set. A pending job must
-- be in none.
local SETS = {scheduled = q.by_key, retry = q.by_key, dead = q.ended_keys, completed = q.ended_keys, cancelled = q.ended_keys}
local function of_key(id, s)
  local e, right = s.key .. '\0' .. id, SETS[s.home]
  if s.home == 'leases' then
    right = redis.call('HEXISTS', q.held, id) == 1 and q.by_key or q.active_keys
    if right == q.active_keys and not string.find(s.lease, '^%d+:[^\n]') then return end
  end
  if right and not redis.call('ZSCORE', right, e) then
    local active = right == q.active_keys
    found(active and 'key-count-differs' or 'key-entry-missing', id,
      active and 'it is active, and does not count for its key' or 'the index of keys does not lead to it',
      function() redis.call('ZADD', right, 0, e) end)
  end
  for _, set in ipairs({q.by_key, q.ended_keys}) do
    if set ~= right and redis.call('ZSCORE', set, e) and (right or is_ready(q, s)) then
      found('key-entry-without-job', id, 'the index of keys has it as a job in another state', function()
        redis.call('ZREM', set, e)
      end)
    end
  end
end

local CAUSES = {t = 'type', r = 'reason'}

-- indexed checks that the index of dead jobs has the job by its type, its reason and its error.
local function indexed(id, body)
  local at = redis.call('ZSCORE', q.dead, id)
  if not at then return end
  local function missing(by, add)
    found('dead-job-not-indexed', id, 'it is dead, and the index of dead jobs by ' .. by .. ' does not lead to it', add)
  end
  local members, message, position = causes(id, at, body, redis.call('HGET', q.heads, id))
  for _, member in ipairs(members) do
    if not redis.call('ZSCORE', q.causes, member) then
      missing(CAUSES[string.sub(member, 1, 1)], function() redis.call('ZADD', q.causes, 0, member) end)
    end
  end
  local entry = message and error_at(q, position)
  if message and not (entry and entry.text == error_entry(position, message)) then
    missing('error', function() add_error(q, position, message) end)
  end
end

local function examine(id, body, head, lease)
  local s = inspect_job(q, id, body, head, lease)
  places(id, head, s)
  if s.home == 'ready' then told[#told + 1] = string.sub(body, 1, 8) .. s.priority .. s.ready_entry end
  local size = math.max(#body - 8, head and #head or 0)
  if size > big then
    found('size-bound-exceeded', id, 'it has ' .. size .. ' bytes, the queue\'s record says ' .. big .. ' at most', function()
      redis.call('HSET', q.record, 'big', size)
      big = size
    end)
  end
  if s.key then of_key(id, s) end
  if (s.home == 'completed' or s.home == 'cancelled') and not redis.call('ZSCORE', q.lapses, 'r' .. id) then
    found('record-never-lapses', id, 'it ended, and nothing ends its retention', function()
      local keep = retention(body)
      if keep == 0 then keep = tonumber(m.keep_completed or 0) end
      redis.call('ZADD', q.lapses, int(up + keep), 'r' .. id)
    end)
  end
  if s.home == 'dead' then indexed(id, body) end
  unique(id, body, s)
end

if part == 'heads' then
  local page, at = nil, cursor
  repeat
    page, at = scanned(q.heads, at, a_page, math.min(a_page, most - records))
    for _, field in ipairs(page) do
      local id = field[1]
      read = read + #field[2]
      if id ~= '' and redis.call('HEXISTS', q.bodies[bucket(q, id)], id) == 0 then
        found('head-without-job', id, 'a head is stored without a job', function() redis.call('HDEL', q.heads, id) end)
      end
    end
  until at == '' or records >= most or read >= BYTES
  return answer(at)
end

local b, at = string.match(cursor, '^(%d+)/(.*)$')
b, at = tonumber(b or 1), at or ''
repeat
  local page
  page, at = scanned(q.bodies[b], at, a_page, math.min(a_page, most - records))
  for _, field in ipairs(page) do
    local id, body = field[1], field[2]
    local right = bucket(q, id)
    read = read + #body
    if right ~= b then
      found('body-in-wrong-bucket', id, 'it is stored in b' .. (b - 1) .. ' and belongs into b' .. (right - 1), function()
        redis.call('HDEL', q.bodies[b], id)
        redis.call('HSETNX', q.bodies[right], id, body)
      end)
    end
    -- If the body was just moved to a later bucket, it is examined there.
    if right == b or right < b and fixing then
      examine(id, body, redis.call('HGET', q.heads, id), redis.call('HGET', q.leases, id))
    end
  end
  if at == '' then b = b + 1 end
until b > q.buckets or records >= most or read >= BYTES
if b > q.buckets then return answer('') end
return answer(b .. '/' .. at)
