-- examine_keys: examine a page of the line of jobs with a key, of their places in it,
-- of the active jobs of keys, of those that ended, of blocked keys, of heads of keys, or of
-- policies of keys.
--
-- KEYS   record heads leases by_key ended_keys scheduled retry dead completed cancelled held line
--        places rings* blocked thawing active_keys key_policies key_rates key_heads ready* token
--        bodies*
-- ARGV   now queues buckets part cursor most repair
--        (part: "line", "places", "slots", "ended keys", "blocked", "key heads", "policies"; most:
--        records; repair: 1 to repair)
-- Reply  {0, now, cursor, records, {}, then per finding: code, ID or key, what is
--        wrong, 1 if repaired, why not}
-- @include clock
-- @include open
-- @include examine
-- @include pages
-- @include holder
-- @include standing
-- @include line
-- @include wake

local q, m = open('paused', 'flow', 'thaw_again')
if q.refused then return q.refused end
q.paused = m.paused == '1'
read_limits(q, m.flow)

local function body_of(id) return redis.call('HGET', q.bodies[bucket(q, id)], id) end

local function look(id, body) return standing(q, id, body, redis.call('HGET', q.heads, id), redis.call('HGET', q.leases, id)) end

-- seated reports whether a key with a pending job of a priority stands where claims
-- and those that make room look for it.
local function seated(key, p)
  return redis.call('ZSCORE', q.rings[p], key) or redis.call('ZSCORE', q.blocked, key) or redis.call('ZSCORE', q.thawing, key)
end

local function reseat(key)
  redis.call('ZREM', q.blocked, key)
  if seat(q, key, own_rules(q, {key})[1]) then wake(q) end
end

-- examine_entry examines an entry in line.
local function examine_entry(e)
  local key, p, t = string.match(e, '^([^%z]+)%z([1-4])%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d(.+)$')
  local function remove() redis.call('ZREM', q.line, e) end
  if not key then
    found('entry-malformed', e, 'an entry in line names no job', remove)
    return
  end
  local id = id_of_turn(t)
  local body = body_of(id)
  local s = body and look(id, body)
  if not body or s.key ~= key then
    found('entry-without-job', id, 'it stands in line and is not stored with that key', remove)
  elseif s.home ~= 'ready' then
    found('job-in-two-places', id, 'it stands among ' .. CALLED[s.home] .. ', as it should, and in line', remove)
  elseif s.turn ~= t or int(s.priority) ~= p then
    found('entry-of-other-epoch', id, 'its entry in line is of another epoch or priority', remove)
  elseif e ~= key .. '\0' .. (redis.call('HGET', q.places, id) or '') .. t then
    found('job-in-two-places', id, 'it stands in line at another place than is noted', function()
      if in_place(q, s) then return remove() end
      redis.call('HSET', q.places, id, string.sub(e, #key + 2, #key + 17))
    end)
  elseif not seated(key, tonumber(p)) then
    found('key-without-turn', key, 'it has pending jobs, no turn, and nothing that it waits for', function() reseat(key) end)
  end
end

local function examine_place(id)
  local body = body_of(id)
  local s = body and look(id, body)
  if s and s.key and in_place(q, s) then return end
  found('entry-without-job', id, 'its place in line is noted, and it does not stand there', function() redis.call('HDEL', q.places, id) end)
end

local function examine_slot(e)
  local key, id = string.match(e, '^([^%z]*)%z(.*)$')
  local lease = id and redis.call('HGET', q.leases, id)
  if lease and (not string.find(lease, '^%d+:') or not held(lease)) then return end
  found('key-count-differs', id or e, 'it counts as active for its key, and is not', function()
    redis.call('ZREM', q.active_keys, e)
    if key and free_keys(q, {key}) then wake(q) end
  end)
end

local function examine_ended(e)
  local key, id = string.match(e, '^([^%z]*)%z(.*)$')
  local body = id and body_of(id)
  local s = body and look(id, body)
  if s and s.key == key and (HOME[s.state] or s.dead or s.completed or s.cancelled) then return end
  found('key-entry-without-job', id or e, 'the index of keys has it among those that ended, and it did not, or is gone', function()
    redis.call('ZREM', q.ended_keys, e)
  end)
end

local to_thaw = m.thaw_again and redis.call('EXISTS', q.thawing) == 1 -- claims will look at all that are blocked
local function examine_blocked(key, at)
  if not first_of(q, key) then
    found('key-without-turn', key, 'it is kept back, and has no pending jobs', function() redis.call('ZREM', q.blocked, key) end)
  elseif at >= FAR and not to_thaw and key_room(q, key, own_rules(q, {key})[1]).room > 0 then
    found('key-without-turn', key, 'it is kept back, and nothing keeps it', function() reseat(key) end)
  end
end

local function examine_head(key, head)
  local id = string.match(head, '^[^\n]*')
  local body = body_of(id)
  local s = body and look(id, body)
  if s and s.key == key and s.state ~= COMPLETED and s.state ~= CANCELLED then return end
  found('key-head-wrong', id, 'the jobs of its key ' .. key .. ' come after it, and it is gone or ended', function()
    redis.call('HDEL', q.key_heads, key)
    if free_keys(q, {key}) then wake(q) end
  end)
end

local function examine_policy(key)
  if redis.call('ZSCORE', q.by_key, key .. '\0') then return end
  found('key-entry-missing', key, 'the key has a policy, and is not listed', function() redis.call('ZADD', q.by_key, 0, key .. '\0') end)
end

-- A page by name of a set whose members all have the same score.
local by_name = {line = {q.line, examine_entry}, slots = {q.active_keys, examine_slot}, ['ended keys'] = {q.ended_keys, examine_ended}}
local by_field = {places = {q.places, examine_place}, ['key heads'] = {q.key_heads, examine_head},
  policies = {q.key_policies, examine_policy}}
if by_name[part] then
  local set, examine_one = unpack(by_name[part])
  local page = redis.call('ZRANGEBYLEX', set, cursor == '' and '-' or '(' .. cursor, '+', 'LIMIT', 0, most)
  records = #page
  for _, e in ipairs(page) do examine_one(e) end
  return answer(#page == most and page[#page] or '')
elseif by_field[part] then
  local key, examine_one = unpack(by_field[part])
  local page, at = scanned(key, cursor, most)
  for _, field in ipairs(page) do examine_one(field[1], field[2]) end
  return answer(at)
end
local page, at = timed(q.blocked, cursor, most, '', '')
records = #page
for _, key in ipairs(page) do examine_blocked(key, tonumber(redis.call('ZSCORE', q.blocked, key) or 0)) end
return answer(at)
