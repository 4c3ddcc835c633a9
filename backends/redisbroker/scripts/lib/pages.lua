-- @include span
-- @include entry
-- @include holder
-- @include key_range
-- @include causes
-- @include scan

-- The functions that read pages take a cursor and a number. They return up to so many entries, and the next
-- cursor, which is empty at the end.

-- ready_of_key adds pending jobs of a key to ids, until ids has n. It begins at a position: a priority, a
-- piece of the key's entries, and the last ID seen in the piece. It returns the position at which it stopped,
-- or nil if there are no more jobs.
local function ready_of_key(q, key, p, number, id, n, ids)
  for line = p, 4 do
    local span = span_for(q, line, key)
    local head, tail = ends_of(span)
    local seen = id
    for at = math.max(head, number or head), tail do
      local some = {}
      for t in string.gmatch(piece_of(q, line .. key, span, at), '[^\n]+') do
        some[#some + 1] = id_of_ready(t)
        if some[#some] == id then some = {} end
      end
      for _, next_id in ipairs(some) do
        if #ids >= n then return line .. ':' .. int(at) .. ':' .. #seen .. ':' .. seen end
        ids[#ids + 1], seen = next_id, next_id
      end
      id, seen = '', ''
    end
    number, id = nil, ''
  end
end

-- parse_position reads a position of ready_of_key, and the rest of the cursor.
local function parse_position(cursor)
  local p, number, length, rest = string.match(cursor, '^(%d):(%-?%d+):(%d+):(.*)$')
  local upto = tonumber(length)
  return tonumber(p), tonumber(number), string.sub(rest, 1, upto), string.sub(rest, upto + 1)
end

-- ready_of_keys adds pending jobs with a key to ids, until ids has n. It goes key by key in the order of
-- by_key, which does not change when jobs are added and removed. The cursor is a position, followed by the key.
local function ready_of_keys(q, cursor, n, ids)
  local p, number, id, key = 1, nil, '', nil
  local from = '-'
  if cursor ~= '' then
    p, number, id, key = parse_position(cursor)
    from = '[' .. key
  end
  for _ = 1, n + 1 do
    local member = redis.call('ZRANGE', q.by_key, from, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
    if not member then return '' end
    local next_key = string.match(member, '^[^%z]*')
    if next_key ~= key then p, number, id = 1, nil, '' end
    key = next_key
    local at = ready_of_key(q, key, p, number, id, n, ids)
    if at then return at .. key end
    from = '[' .. key .. '\1'
  end
  return '5:0:0:' .. key -- after all jobs of this key
end

-- ready pages through the ready lists, beginning at the newest entry. New entries move the others back, and
-- claims take entries from the other end, so a page may repeat jobs but never misses one. Jobs with a key
-- follow, key by key. The cursor is priority .. offset, or "5" and the cursor of ready_of_keys.
local function ready(q, cursor, n)
  local p, offset, ids = 1, 0, {}
  if cursor ~= '' then p, offset = tonumber(string.sub(cursor, 1, 1)), tonumber(string.sub(cursor, 2)) end
  for list = p, 4 do
    local entries = redis.call('LRANGE', q.ready[list], int(offset), int(offset + n - #ids - 1))
    for _, e in ipairs(entries) do ids[#ids + 1] = id_of_ready(e) end
    if #ids == n then return ids, list .. int(offset + #entries) end
    offset = 0
  end
  local behind = ready_of_keys(q, p == 5 and string.sub(cursor, 2) or '', n, ids)
  return ids, behind == '' and '' or '5' .. behind
end

local SCAN_STEP = 20 -- about how many entries one HSCAN reads

-- unordered pages through a hash of jobs: leases, or held jobs. It looks at up to n jobs, and returns up to
-- most of them. After a hash has shrunk, its steps, and so the pages, have fewer jobs.
local function unordered(key, cursor, n, worker, most)
  local out, looked = {}, 0
  for _ = 1, 1 + math.ceil(n / SCAN_STEP) do
    local room = math.min(n - looked, most - #out)
    if room <= 0 then break end
    local ids, values, after = scan_page(key, cursor, SCAN_STEP, room)
    looked, cursor = looked + #ids, after
    for _, id in ipairs(ids) do
      if worker == '' or select(3, holder(values[id])) == worker then out[#out + 1] = id end
    end
    if cursor == '' then break end
  end
  return out, cursor
end

-- timed pages through a sorted set, from score after up to score before; with newest, in the other direction.
-- The cursor is the last score and member; if that member is gone, the page begins at its score. The page is
-- read by ranks, since reading all scores would double its cost.
local function timed(key, cursor, n, after, before, newest)
  if after == '' then after = '-inf' end
  if before == '' then before = '1e300' end -- after all times, before a guard
  -- passed counts the entries that come before the entries of a score.
  local function passed(score)
    if newest then return redis.call('ZCOUNT', key, score, '+inf') end
    return redis.call('ZCOUNT', key, '-inf', '(' .. score)
  end
  local first
  if cursor == '' then
    first = passed(newest and before or after)
  else
    local score, member = string.match(cursor, '^(%d+):(.*)$')
    if tonumber(redis.call('ZSCORE', key, member) or -1) == tonumber(score) then
      first = redis.call(newest and 'ZREVRANK' or 'ZRANK', key, member) + 1
    else
      first = passed(newest and '(' .. score or score)
    end
  end
  local stop = math.min(first + n, passed(newest and after or before))
  if stop <= first then return {}, '' end
  local found = newest and redis.call('ZRANGE', key, int(first), int(stop - 1), 'REV')
    or redis.call('ZRANGE', key, int(first), int(stop - 1))
  if #found < n then return found, '' end
  return found, int(tonumber(redis.call('ZSCORE', key, found[n]))) .. ':' .. found[n]
end

-- caused pages through the dead jobs of a type or a reason, whose members in q.causes begin with cause. It has the same order and
-- cursors as timed. A colon, as an upper bound, is greater than all digits.
local function caused(key, cause, cursor, n, after, before, newest)
  local from, to = '[' .. cause, '(' .. cause .. ':'
  if after ~= '' then from = '[' .. cause .. timed_cause(after) end
  if before ~= '' then to = '(' .. cause .. timed_cause(before) end
  if cursor ~= '' then
    local at, id = string.match(cursor, '^(%d+):(.*)$')
    local last = '(' .. cause .. timed_cause(at) .. id
    if newest then to = last else from = last end
  end
  local found = newest and redis.call('ZRANGE', key, to, from, 'BYLEX', 'REV', 'LIMIT', 0, n)
    or redis.call('ZRANGE', key, from, to, 'BYLEX', 'LIMIT', 0, n)
  local last = found[n]
  for i, member in ipairs(found) do found[i] = string.sub(member, #cause + 17) end
  return found, last and int(tonumber(string.sub(last, #cause + 1, #cause + 16))) .. ':' .. found[n] or ''
end

-- keyed pages through the jobs of a key: first the pending jobs in their order, then all others by ID.
-- The cursor is "L" and a position, or "I" and the last ID.
local function keyed(q, cursor, n, key)
  local ids, from = {}, {}
  if string.byte(cursor) ~= 73 then
    local p, number, id = 1, nil, ''
    if cursor ~= '' then p, number, id = parse_position(string.sub(cursor, 2)) end
    local at = ready_of_key(q, key, p or 1, number, id, n, ids)
    if at then return ids, 'L' .. at end
    cursor = 'I'
  end
  local after = string.sub(cursor, 2)
  for _, set in ipairs({q.by_key, q.active_keys, q.ended_keys}) do
    local members = redis.call('ZRANGE', set, '(' .. key .. '\0' .. after, to_key(key), 'BYLEX', 'LIMIT', 0, n)
    for _, member in ipairs(members) do from[#from + 1] = member end
  end
  table.sort(from, before)
  for i, member in ipairs(from) do
    if member ~= from[i - 1] then
      if #ids == n then return ids, 'I' .. after end
      after = string.sub(member, #key + 2)
      ids[#ids + 1] = after
    end
  end
  return ids, #ids < n and '' or 'I' .. after
end
