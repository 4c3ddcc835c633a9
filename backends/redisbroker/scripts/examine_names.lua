-- examine_names: examine a page of unique keys, of remembered IDs, of the index by key, or of what
-- lapses.
--
-- KEYS   record heads leases ended_workers unique by_key remembered scheduled retry dead completed
--        cancelled lapses key_policies ended_keys held key_pieces key_spans rings* blocked rechecked active_keys
--        key_rates key_heads ready* token bodies*
-- ARGV   now queues buckets part cursor most repair
--        (part: "unique keys", "remembered", "keys", "lapses"; most: records; repair: 1 to repair)
-- Reply  {0, now, cursor, records, {}, then per finding: code, ID, what is wrong,
--        1 if repaired, why not}
-- @include clock
-- @include open
-- @include examine
-- @include pages
-- @include inspect_job
-- @include start_behind

local q, m = open('paused', 'flow')
if q.refused then return q.refused end
q.paused = m.paused == '1'
read_limits(q, m.flow)

local function examine_unique(key, held)
  local mode, till, id, next = string.match(held, '^(%d)(%d+):([^\n]*)\n?(.*)$')
  if mode == '2' then
    if not redis.call('ZSCORE', q.lapses, 'u' .. key) then
      found('unique-window-never-lapses', key, 'the window of the key is on no list of what lapses', function()
        redis.call('ZADD', q.lapses, till, 'u' .. key)
      end)
    end
    return
  end
  local function free_key()
    redis.call('HDEL', q.unique, key)
    if next and next ~= '' then start_behind(q, key, id, next) end -- nil: the value is malformed
  end
  local body = id and body_of(q, id)
  if not body then
    found('unique-key-of-missing-job', id or key, 'the unique key ' .. key .. ' is held, and not by a job that is stored', free_key)
    return
  end
  local s = look(q, id, body)
  if s.index[UNIQUE_KEY] ~= key or HOME[s.state] or mode == '1' and s.home == 'leases' and s.state ~= WAITING then
    found('unique-key-of-ended-job', id, 'it is among ' .. CALLED[s.home] .. ' and still holds the unique key ' .. key, free_key)
  end
end

local function examine_remembered(id, till)
  if not redis.call('ZSCORE', q.lapses, 'i' .. id) then
    found('remembered-id-never-lapses', id, 'the ID is remembered, and nothing ends that', function()
      redis.call('ZADD', q.lapses, string.match(till, '^%d+'), 'i' .. id)
    end)
  end
end

local function examine_key(member)
  local key, id = string.match(member, '^(.-)%z(.*)$')
  if id == '' and (redis.call('HEXISTS', q.key_policies, key) == 1 or select(2, pending_of(q, key)) > 0) then return end
  local body = id and body_of(q, id)
  if not body or parse_index((index_of(body)))[KEY] ~= key then
    local what = 'the index of keys leads to it, and it is gone or has another key'
    found('key-entry-without-job', id ~= '' and id or key or member, what, function()
      redis.call('ZREM', q.by_key, member)
    end)
  end
end

local function examine_lapse(entry)
  local kind, name = string.sub(entry, 1, 1), string.sub(entry, 2)
  local there = kind == 'r' and (redis.call('ZSCORE', q.completed, name) or redis.call('ZSCORE', q.cancelled, name)) or
    kind == 'i' and redis.call('HEXISTS', q.remembered, name) == 1 or kind == 'w' and redis.call('HEXISTS', q.ended_workers, name) == 1 or
    kind == 'u' and (redis.call('HEXISTS', q.unique, name) == 1 or tonumber(redis.call('ZSCORE', q.lapses, entry)) <= now)
  if not there then
    found('lapse-without-record', name, 'it is to be removed at a time, and is not there', function()
      redis.call('ZREM', q.lapses, entry)
    end)
  end
end

if part == 'unique keys' or part == 'remembered' then
  local page, at = scanned(part == 'remembered' and q.remembered or q.unique, cursor, most)
  for _, field in ipairs(page) do
    if part == 'remembered' then examine_remembered(field[1], field[2]) else examine_unique(field[1], field[2]) end
  end
  return answer(at)
elseif part == 'keys' then
  local page = redis.call('ZRANGE', q.by_key, cursor == '' and '-' or '(' .. cursor, '+', 'BYLEX', 'LIMIT', 0, most)
  records = #page
  for _, member in ipairs(page) do examine_key(member) end
  return answer(#page == most and page[#page] or '')
end
local page, at = timed(q.lapses, cursor, most, '', '')
records = #page
for _, entry in ipairs(page) do examine_lapse(entry) end
return answer(at)
