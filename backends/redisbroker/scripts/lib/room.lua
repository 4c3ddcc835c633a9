-- @include own

-- Why a key may start no job: the numbers of broker.Block.
local PAUSED, ORDER, BUSY_KEY, RATE = 1, 2, 3, 4

-- head_of returns the ID of the head of a key, and whether that job is pending. In key_heads, the ID is
-- followed by a newline and PENDING_HEAD if the head is pending. For a dead head it is followed by a newline and
-- how often SKIP had been set: after SKIP is set again, the dead job is not the head any more.
local PENDING_HEAD = 'p'
local function head_of(q, key)
  local head = redis.call('HGET', q.key_heads, key)
  if not head then return nil end
  local id, mark = string.match(head, '^([^\n]*)\n?(.*)$')
  local skips = tonumber(mark)
  if skips and skips < tonumber(redis.call('HGET', q.record, 'skips') or 0) then
    redis.call('HDEL', q.key_heads, key)
    return nil
  end
  return id, mark == PENDING_HEAD
end

-- is_head reports whether a job is the head of its key, for which the key's other jobs wait.
local function is_head(q, key, id)
  return q.rules and q.rules.ordered > 0 and head_of(q, key) == id
end

-- key_room returns what a key may start now. room is the number of jobs. why says why it is 0. till is when
-- there will be room, if only time decides. slots is what is left of the limit of active jobs. bucket and rate
-- are set if the key has a rate. head is its head, if it has one, and ready says whether the head is pending.
-- The argument used is the stored count of the key's rate, if it was already read.
local function key_room(q, key, own, used)
  local r = q.rules
  local allowed = {room = math.huge, slots = nil, bucket = nil, rate = nil} -- space for the fields that are mostly set
  if not r then return allowed end
  local most = rule_of(q, own, 'max_active')
  if r.ordered > 0 then
    most = 1
    allowed.head, allowed.ready = head_of(q, key)
  end
  if own and own.paused == 1 or allowed.head and not allowed.ready then
    allowed.room, allowed.why = 0, own and own.paused == 1 and PAUSED or ORDER
    return allowed
  end
  if most > 0 then
    allowed.room = math.max(0, most - count_of(q.active_keys, key))
    allowed.slots = allowed.room
    if allowed.room == 0 then
      allowed.why = BUSY_KEY
      return allowed
    end
  end
  local rate = key_rate(q, own)
  if rate then
    if used == nil then used = redis.call('HGET', q.key_rates, key) end
    local bucket_of = read_bucket(used)
    local free, till = bucket_free(bucket_of, unpack(rate))
    allowed.bucket, allowed.rate = bucket_of, rate
    allowed.room = math.min(allowed.room, free)
    if free == 0 then allowed.why, allowed.till = RATE, till end
  end
  return allowed
end

-- rooms_of returns what some keys may start, by their index in the list; nothing if no key has rules.
local ENDLESS = {room = math.huge} -- what a key without rules may start; shared, since it never changes
local function rooms_of(q, keys, own)
  local r, rooms, used = q.rules, {}, {}
  if not (r and r.of_keys) or #keys == 0 then return rooms end
  if r.own or r.key_rate > 0 then used = redis.call('HMGET', q.key_rates, unpack(keys)) end
  for i, key in ipairs(keys) do rooms[i] = key_room(q, key, own[i], used[i]) end
  return rooms
end
