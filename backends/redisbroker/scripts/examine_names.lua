-- examine_names: examine a page of unique keys, of remembered IDs, of the index
-- of keys, or of what lapses.
--
-- KEYS   m h a x u i ids z y d f g l r* b*
-- ARGV   now; 1; buckets; part: "unique keys", "remembered", "keys", "lapses";
--        cursor; most records; 1 to repair
-- Reply  {0, now, cursor, records, {}, then per finding: code, ID, what is wrong,
--        1 if repaired, why not}
-- @include clock
-- @include open
-- @include examine
-- @include pages
-- @include holder
-- @include standing

local q = open()
if q.refused then return q.refused end

local function body_of(id) return redis.call('HGET', q.b[bucket(q, id)], id) end

local function examine_unique(key, held)
  local mode, till, id = string.match(held, '^(%d)(%d+):(.*)$')
  if mode == '2' then
    if not redis.call('ZSCORE', q.l, 'u' .. key) then
      found('unique-window-never-lapses', key, 'the window of the key is on no list of what lapses', function() redis.call('ZADD', q.l, till, 'u' .. key) end)
    end
    return
  end
  local function free() redis.call('HDEL', q.u, key) end
  local body = id and body_of(id)
  if not body then
    found('unique-key-of-missing-job', id or key, 'the unique key ' .. key .. ' is held, and not by a job that is stored', free)
    return
  end
  local s = standing(q, id, body, redis.call('HGET', q.h, id), redis.call('HGET', q.a, id))
  if s.index[UNIQUE_KEY] ~= key or HOME[s.state] or mode == '1' and s.home == 'a' and s.state ~= WAITING then
    found('unique-key-of-ended-job', id, 'it stands among ' .. CALLED[s.home] .. ' and still holds the unique key ' .. key, free)
  end
end

local function examine_remembered(id, till)
  if not redis.call('ZSCORE', q.l, 'i' .. id) then
    found('remembered-id-never-lapses', id, 'the ID is remembered, and nothing ends that', function() redis.call('ZADD', q.l, till, 'i' .. id) end)
  end
end

local function examine_key(member)
  local key, id = string.match(member, '^(.-)%z(.*)$')
  local body = id and body_of(id)
  if not body or parse_index((index_of(body)))[KEY] ~= key then
    found('key-entry-without-job', id or member, 'the index of keys leads to it, and it is gone or has another key', function()
      redis.call('ZREM', q.i, member)
    end)
  end
end

local function examine_lapse(entry)
  local kind, name = string.sub(entry, 1, 1), string.sub(entry, 2)
  local there = kind == 'r' and (redis.call('ZSCORE', q.f, name) or redis.call('ZSCORE', q.g, name)) or
    kind == 'i' and redis.call('HEXISTS', q.ids, name) == 1 or kind == 'w' and redis.call('HEXISTS', q.x, name) == 1 or
    kind == 'u' and (redis.call('HEXISTS', q.u, name) == 1 or tonumber(redis.call('ZSCORE', q.l, entry)) <= now)
  if not there then
    found('lapse-without-record', name, 'it is to be removed at a time, and is not there', function() redis.call('ZREM', q.l, entry) end)
  end
end

if part == 'unique keys' or part == 'remembered' then
  local page, at = scanned(part == 'remembered' and q.ids or q.u, cursor, most)
  for _, field in ipairs(page) do
    if part == 'remembered' then examine_remembered(field[1], field[2]) else examine_unique(field[1], field[2]) end
  end
  return answer(at)
elseif part == 'keys' then
  local page = redis.call('ZRANGEBYLEX', q.i, cursor == '' and '-' or '(' .. cursor, '+', 'LIMIT', 0, most)
  records = #page
  for _, member in ipairs(page) do examine_key(member) end
  return answer(#page == most and page[#page] or '')
end
local page, at = timed(q.l, cursor, most, '', '')
records = #page
for _, entry in ipairs(page) do examine_lapse(entry) end
return answer(at)
