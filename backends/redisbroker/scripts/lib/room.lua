-- @include own

-- Why a key may start nothing, as package broker numbers it.
local PAUSED, ORDER, BUSY_KEY, RATE = 1, 2, 3, 4

-- head_of is the ID of the job that those of a key come after, and whether it is
-- pending. key_heads says so behind a line end; or has there, of one that died, how often
-- SKIP had been set: a dead one is the head no more once that has happened again.
local PENDING_HEAD = 'p'
local function head_of(q, key)
  local head = redis.call('HGET', q.key_heads, key)
  if not head then return nil end
  local id, mark = string.match(head, '^([^\n]*)\n?(.*)$')
  local skips = tonumber(mark)
  if skips and redis.call('ZSCORE', q.dead, id) and skips < tonumber(redis.call('HGET', q.record, 'skips') or 0) then
    redis.call('HDEL', q.key_heads, key)
    return nil
  end
  return id, mark == PENDING_HEAD
end

-- is_head reports whether those of a key come after this job.
local function is_head(q, key, id)
  if not (q.rules and q.rules.ordered > 0) then return false end
  local head = redis.call('HGET', q.key_heads, key)
  return head and (head == id or string.sub(head, 1, #id + 1) == id .. '\n')
end

-- key_room is what a key may do now: room, how many of its jobs may start; why, where
-- there is none, and till, when time alone makes room; bucket and head where it has
-- them, and whether that is pending.
local ENDLESS = {room = math.huge} -- shared by all keys: no number of turns makes it less
local function key_room(q, key, own)
  local r = q.rules
  if not r then return ENDLESS end
  local may = {room = math.huge}
  local most = rule_of(q, own, 'max_active')
  if r.ordered > 0 then
    most = 1
    may.head, may.ready = head_of(q, key)
  end
  if own and own.paused == 1 or may.head and not may.ready then
    may.room, may.why = 0, own and own.paused == 1 and PAUSED or ORDER
    return may
  end
  if most > 0 then
    may.room = math.max(0, most - count_of(q.active_keys, key))
    may.slots = may.room
    if may.room == 0 then
      may.why = BUSY_KEY
      return may
    end
  end
  local rate = key_rate(q, own)
  if rate then
    local bucket = read_bucket(redis.call('HGET', q.key_rates, key))
    local free, till = bucket_free(bucket, unpack(rate))
    may.bucket, may.rate = bucket, rate
    may.room = math.min(may.room, free)
    if free == 0 then may.why, may.till = RATE, till end
  end
  return may
end
