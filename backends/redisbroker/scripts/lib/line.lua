-- @include room
-- @include turn

-- Pending jobs with a key stand in one sorted set, line, by key, priority and number;
-- places says for each ID its priority and number. Keys that may start a job of a
-- priority are in its ring, by their pass; others that have pending jobs are in blocked,
-- by when they may, or FAR, or in thawing while a change of the policy is seen to. The
-- last member of a ring is a guard with an endless pass.
local FAR = 9000000000000001 -- no round number: miniredis writes that as 9e+15, which its Lua cannot read
local MIDDLE = 500000000000000 -- the first number; those at the front are below
local STRIDE = 1000000 -- how far a turn takes a key of weight 1

local function is_guard(member) return not member or string.byte(member) == 0 end

local function stride_of(own)
  local weight = own and own.weight or 0
  return weight > 1 and math.floor(STRIDE / weight) or STRIDE
end

local function member(key, place, epoch, id) return key .. '\0' .. place .. turn(epoch, id) end

-- first_of is the first entry in line of a key, from a priority on.
local function first_of(q, key, p)
  return redis.call('ZRANGEBYLEX', q.line, from_key(key) .. (p or ''), to_key(key), 'LIMIT', 0, 1)[1]
end

-- parts cuts an entry of a key into priority, and the turn of its job.
local function parts(key, entry) return string.sub(entry, #key + 2, #key + 2), string.sub(entry, #key + 18) end

-- entry_pass is the pass with which a key enters the ring of a priority: behind one turn
-- of each other key, so that it gains nothing by having been away, and before their
-- second one.
local function entry_pass(q, p, own)
  q.floors = q.floors or {}
  local floor = q.floors[p]
  if not floor then
    local least = redis.call('ZRANGE', q.rings[p], 0, 0, 'WITHSCORES')
    floor = is_guard(least[1]) and 0 or tonumber(least[2])
    q.floors[p] = floor
  end
  return int(floor + stride_of(own) - 1)
end

-- enter puts a key into the ring of a priority.
local function enter(q, key, p, own)
  redis.call('ZADD', q.rings[p], 'NX', entry_pass(q, p, own), key)
end

-- enter_all puts a key into the ring of each priority of which it has pending jobs.
local function enter_all(q, key, own)
  local p = 1
  while p <= 4 do
    local first_job = first_of(q, key, p)
    if not first_job then return p > 1 end
    p = tonumber((parts(key, first_job)))
    enter(q, key, p, own)
    p = p + 1
  end
  return true
end

-- seat gives a key with pending jobs its place. It returns whether one of them can
-- be claimed; if not, and time alone keeps them back, until when.
local function seat(q, key, own)
  if not first_of(q, key) then return false end
  local may = key_room(q, key, own)
  if may.room <= 0 then
    redis.call('ZADD', q.blocked, int(may.till or FAR), key)
    return false, may.till
  end
  return enter_all(q, key, own)
end

-- next_unblocked is the first time at which time alone lets a key start a job, or nil.
local function next_unblocked(q)
  local e = redis.call('ZRANGE', q.blocked, 0, 0, 'WITHSCORES')
  local at = e[1] and tonumber(e[2])
  if at and at < FAR then return at end
end

-- free_keys looks again at keys of which a job ended or is first in line again. It
-- returns whether one of their jobs can be claimed now.
local function free_keys(q, keys)
  if #keys == 0 or redis.call('EXISTS', q.blocked) == 0 then return false end
  local scores, freed = redis.call('ZMSCORE', q.blocked, unpack(keys)), {}
  for i, key in ipairs(keys) do
    if scores[i] then freed[#freed + 1] = key end
  end
  if #freed == 0 then return false end
  redis.call('ZREM', q.blocked, unpack(freed))
  local own, woken = own_rules(q, freed), false
  for i, key in ipairs(freed) do woken = seat(q, key, own[i]) or woken end
  return woken
end

-- join stands jobs in line, of which a list has key, priority, epoch and ID: behind all
-- others of their key, or before them, the first one first. It returns whether a claim
-- should look: one of them can be claimed, or can be sooner than was known.
local function join(q, jobs, front)
  local n = #jobs / 4
  if n == 0 then return false end
  local number = front and redis.call('HINCRBY', q.record, 'front', -n) or redis.call('HINCRBY', q.record, 'back', n) - n
  local entries, places, keys, of = {}, {}, {}, {{}, {}, {}, {}}
  for i = 1, #jobs, 4 do
    local key, p, epoch, id = jobs[i], jobs[i + 1], jobs[i + 2], jobs[i + 3]
    local place = p .. string.format('%015.0f', MIDDLE + number)
    local e = #places
    entries[e + 1], entries[e + 2] = 0, member(key, place, epoch, id)
    places[e + 1], places[e + 2] = id, place
    number = number + 1
    local list = of[tonumber(p)]
    if not list[key] then
      list[key] = true
      list[#list + 1] = key
    end
  end
  redis.call('ZADD', q.line, unpack(entries))
  redis.call('HSET', q.places, unpack(places))

  local woken, known = false, nil
  local some_blocked = redis.call('EXISTS', q.blocked, q.thawing) > 0
  if some_blocked then known = next_unblocked(q) end
  for p = 1, 4 do
    local list = of[p]
    if #list > 0 then
      local own, here, shut, away, entering = own_rules(q, list), {}, {}, {}, {}
      if some_blocked then
        shut, away = redis.call('ZMSCORE', q.blocked, unpack(list)), redis.call('ZMSCORE', q.thawing, unpack(list))
      end
      if q.rules and q.rules.of_keys then here = redis.call('ZMSCORE', q.rings[p], unpack(list)) end
      for i, key in ipairs(list) do
        if here[i] then
          woken = true
        elseif not (shut[i] or away[i]) then
          local open, till = true, nil
          if q.rules and q.rules.of_keys then
            open, till = seat(q, key, own[i])
          else
            local e = #entering
            entering[e + 1], entering[e + 2] = entry_pass(q, p, own[i]), key
          end
          woken = woken or open or till and (not known or till < known)
        end
      end
      if #entering > 0 then redis.call('ZADD', q.rings[p], 'NX', unpack(entering)) end
    end
  end
  return woken
end

-- unseat takes a key out of the rings of which it has no pending jobs any more.
local function unseat(q, key, p)
  if redis.call('ZLEXCOUNT', q.line, from_key(key) .. p, '(' .. key .. '\0' .. int(p + 1)) > 0 then return end
  redis.call('ZREM', q.rings[p], key)
  if not first_of(q, key) then
    redis.call('ZREM', q.blocked, key)
    redis.call('ZREM', q.thawing, key)
  end
end

-- part_with takes a job out of line.
local function part_with(q, key, epoch, id)
  local place = redis.call('HGET', q.places, id)
  if not place then return end
  redis.call('ZREM', q.line, member(key, place, epoch, id))
  redis.call('HDEL', q.places, id)
  unseat(q, key, tonumber(string.sub(place, 1, 1)))
end
