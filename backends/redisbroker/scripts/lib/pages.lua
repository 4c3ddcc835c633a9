-- @include span
-- @include entry
-- @include key_range

-- A function of pages takes a cursor and a bound; it returns up to that many
-- entries and the cursor behind them, empty at the end.

-- The fields that one step of a scan looks at. It is the same for all pages: a longer step
-- from the same place would bring fields that sort before those that were seen.
local SCAN_STEP = 100

-- steps is how many steps of a scan a page of n takes at most: a hash that has shrunk has
-- few fields in a step, and the page is shorter then.
local function steps(n)
  return 1 + math.ceil(n / SCAN_STEP)
end

-- lines adds jobs with a key to ids, up to n, and returns the cursor behind them: that of
-- a scan, and the ID that was last seen with its piece. What was taken or removed of that
-- stood before it, or is looked at anew.
local function lines(q, cursor, n, ids)
  local scan, number, id, from = '0', nil, nil, ''
  if cursor ~= '' then
    local length
    scan, number, length, from = string.match(cursor, '^(%d+):(%-?%d+):(%d+):(.*)$')
    id, from = string.sub(from, 1, tonumber(length)), piece_field(string.sub(from, length + 1), number)
  end
  for _ = 1, steps(n) do
    local page, fields, pieces = redis.call('HSCAN', q.line, scan, 'COUNT', SCAN_STEP), {}, {}
    for i = 1, #page[2], 2 do
      fields[#fields + 1] = page[2][i]
      pieces[page[2][i]] = page[2][i + 1]
    end
    table.sort(fields)
    for _, field in ipairs(fields) do
      if field ~= '' and field >= from then
        local some, seen = {}, ''
        for t in string.gmatch(pieces[field], '[^\n]+') do
          some[#some + 1] = id_of_turn(t)
          if field == from and some[#some] == id then some, seen = {}, id end
        end
        for _, next_id in ipairs(some) do
          if #ids >= n then
            local line, at = string.match(field, '^([^%z]*)%z(.*)$')
            return scan .. ':' .. at .. ':' .. #seen .. ':' .. seen .. line
          end
          ids[#ids + 1], seen = next_id, next_id
        end
      end
    end
    scan, from = page[1], ''
    if scan == '0' then return '' end
  end
  return scan .. ':0:0:'
end

-- ready pages through the ready lists from the side of the newest. What is
-- pushed there meanwhile moves the rest back, so that a page may repeat jobs
-- and never misses one; what is taken is taken from the other side. Jobs with a key
-- follow, line by line. The cursor is priority .. offset, or "5" and that of lines.
local function ready(q, cursor, n)
  local p, offset, ids = 1, 0, {}
  if cursor ~= '' then p, offset = tonumber(string.sub(cursor, 1, 1)), tonumber(string.sub(cursor, 2)) end
  for list = p, 4 do
    local entries = redis.call('LRANGE', q.ready[list], int(offset), int(offset + n - #ids - 1))
    for _, e in ipairs(entries) do ids[#ids + 1] = id_of_turn(e) end
    if #ids == n then return ids, list .. int(offset + #entries) end
    offset = 0
  end
  local behind = lines(q, p == 5 and string.sub(cursor, 2) or '', n, ids)
  return ids, behind == '' and '' or '5' .. behind
end

-- unordered pages through a hash of jobs, that of leases or of what is held. It looks at
-- n at most, and takes no more than so many of them. The cursor is a scan's, and the last
-- ID that was looked at of what the scan gave for it, in the order of IDs.
local function unordered(key, cursor, n, worker, most)
  local scan, last = '0', ''
  if cursor ~= '' then scan, last = string.match(cursor, '^(%d+):(.*)$') end
  local out, looked = {}, 0
  for _ = 1, steps(n) do
    local page, ids, values = redis.call('HSCAN', key, scan, 'COUNT', SCAN_STEP), {}, {}
    for i = 1, #page[2], 2 do
      local id = page[2][i]
      if id > last then
        ids[#ids + 1] = id
        values[id] = page[2][i + 1]
      end
    end
    table.sort(ids)
    for _, id in ipairs(ids) do
      if looked == n or #out == most then return out, scan .. ':' .. last end
      looked, last = looked + 1, id
      if worker == '' or select(3, holder(values[id])) == worker then out[#out + 1] = id end
    end
    scan, last = page[1], ''
    if scan == '0' then return out, '' end
  end
  return out, scan .. ':'
end

-- timed pages through a sorted set, from score after up to score before, or the other
-- way round. The cursor is the last score and member; if that member is gone, its
-- score is begun anew.
local function timed(key, cursor, n, after, before, newest)
  local rank, rank_of = 0, newest and 'ZREVRANK' or 'ZRANK'
  if cursor ~= '' then
    local score, member = string.match(cursor, '^(%d+):(.*)$')
    if tonumber(redis.call('ZSCORE', key, member) or -1) == tonumber(score) then
      rank = redis.call(rank_of, key, member) + 1
    elseif newest then
      rank = redis.call('ZCOUNT', key, '(' .. score, '+inf')
    else
      rank = redis.call('ZCOUNT', key, '-inf', '(' .. score)
    end
  elseif newest and before ~= '' then
    rank = redis.call('ZCOUNT', key, before, '+inf')
  elseif not newest and after ~= '' then
    rank = redis.call('ZCOUNT', key, '-inf', '(' .. after)
  end
  local found = newest and redis.call('ZRANGE', key, int(rank), int(rank + n - 1), 'REV', 'WITHSCORES')
    or redis.call('ZRANGE', key, int(rank), int(rank + n - 1), 'WITHSCORES')
  local out = {}
  for i = 1, #found, 2 do
    local member, score = found[i], tonumber(found[i + 1])
    if string.byte(member) == 0 then return out, '' end
    if newest and after ~= '' and score < tonumber(after) then return out, '' end
    if not newest and before ~= '' and score >= tonumber(before) then return out, '' end
    out[#out + 1] = member
    cursor = int(score) .. ':' .. member
  end
  if #found < 2 * n then cursor = '' end
  return out, cursor
end

-- keyed pages through the jobs with a key: first those that are pending, in line, then
-- all others by their IDs. The cursor is "L", and where a turn was in line, or "I" and the
-- last ID.
local function keyed(q, cursor, n, key)
  local ids, from = {}, {}
  if string.byte(cursor) ~= 73 then
    local p, number, id = string.match(cursor, '^L(%d):(%-?%d+):(.*)$')
    for line = tonumber(p or 1), 4 do
      local head, tail = ends_of(span_for(q, line, key))
      local seen = id or ''
      for at = math.max(head, tonumber(number or head)), tail do
        local piece = redis.call('HGET', q.line, piece_field(line .. key, at)) or ''
        local some = {}
        for t in string.gmatch(piece, '[^\n]+') do
          some[#some + 1] = id_of_turn(t)
          if some[#some] == id then some = {} end
        end
        for _, next_id in ipairs(some) do
          if #ids == n then return ids, 'L' .. line .. ':' .. int(at) .. ':' .. seen end
          ids[#ids + 1], seen = next_id, next_id
        end
        id, seen = nil, ''
      end
      number, id = nil, nil
    end
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
