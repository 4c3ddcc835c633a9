-- @include turn
-- @include entry
-- @include key_range

-- A function of pages takes a cursor and a bound; it returns up to that many
-- entries and the cursor behind them, empty at the end.

-- ready pages through the ready lists from the side of the newest. What is
-- pushed there meanwhile moves the rest back, so that a page may repeat jobs
-- and never misses one; what is taken is taken from the other side. Jobs with a key
-- follow, as they stand in line. The cursor is priority .. offset, or "5", the place in
-- line of the last job that was seen, and its key.
local function ready(q, cursor, n)
  local p, offset = 1, 0
  if cursor ~= '' then p, offset = tonumber(string.sub(cursor, 1, 1)), tonumber(string.sub(cursor, 2)) end
  local ids, from = {}, '-'
  if p == 5 then from = '(' .. string.sub(cursor, 18) .. '\0' .. string.sub(cursor, 2, 17) .. '\255' end
  for list = p, 4 do
    local entries = redis.call('LRANGE', q.ready[list], int(offset), int(offset + n - #ids - 1))
    for _, e in ipairs(entries) do ids[#ids + 1] = id_of_turn(e) end
    if #ids == n then return ids, list .. int(offset + #entries) end
    offset = 0
  end
  local entries = redis.call('ZRANGEBYLEX', q.line, from, '+', 'LIMIT', 0, n - #ids)
  for _, e in ipairs(entries) do ids[#ids + 1] = id_of_turn(string.sub(e, string.find(e, '\0', 1, true) + 17)) end
  if #ids < n then return ids, '' end
  local last = entries[#entries]
  local key_end = string.find(last, '\0', 1, true)
  return ids, '5' .. string.sub(last, key_end + 1, key_end + 16) .. string.sub(last, 1, key_end - 1)
end

-- unordered pages through a hash of jobs, that of leases or of what is held:
-- the cursor is a scan's, and the last ID that was taken of what the scan gave
-- for it, since that may be more than n. It takes fewer than n for most, but the
-- scan is the same: one that gave more would go back behind the last ID.
local function unordered(key, cursor, n, worker, most)
  local from, last = '0', ''
  if cursor ~= '' then from, last = string.match(cursor, '^(%d+):(.*)$') end
  local scan = redis.call('HSCAN', key, from, 'COUNT', n)
  local ids, values = {}, {}
  for i = 1, #scan[2], 2 do
    local id = scan[2][i]
    if id > last then
      ids[#ids + 1] = id
      values[id] = scan[2][i + 1]
    end
  end
  table.sort(ids)
  local out = {}
  for i = 1, math.min(n, #ids) do
    local by = worker
    if worker ~= '' then by = select(3, holder(values[ids[i]])) end
    if by == worker then out[#out + 1] = ids[i] end
    if #out == most and i < #ids then return out, from .. ':' .. ids[i] end
  end
  if #ids > n then return out, from .. ':' .. ids[n] end
  if scan[1] == '0' then return out, '' end
  return out, scan[1] .. ':'
end

-- timed pages through a sorted set, from score after up to score before, or the other
-- way round. The cursor is the last score and member; if that member is gone, its
-- score is begun anew.
local function timed(key, cursor, n, after, before, newest)
  local rank, range, rank_of = 0, 'ZRANGE', 'ZRANK'
  if newest then range, rank_of = 'ZREVRANGE', 'ZREVRANK' end
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
  local found = redis.call(range, key, int(rank), int(rank + n - 1), 'WITHSCORES')
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

-- before compares as the server orders members: by bytes, whatever its locale.
local function before(a, b)
  local i = 1
  while string.byte(a, i) and string.byte(a, i) == string.byte(b, i) do i = i + 1 end
  return (string.byte(a, i) or -1) < (string.byte(b, i) or -1)
end

-- keyed pages through the jobs with a key by their IDs, whether they ended or not;
-- the cursor is the last ID.
local function keyed(q, cursor, n, key)
  local from, ids, i, j = '(' .. key .. '\0' .. cursor, {}, 1, 1
  local live = redis.call('ZRANGEBYLEX', q.by_key, from, to_key(key), 'LIMIT', 0, n)
  local ended = redis.call('ZRANGEBYLEX', q.ended_keys, from, to_key(key), 'LIMIT', 0, n)
  while #ids < n and (live[i] or ended[j]) do
    local a, b = live[i], ended[j]
    local next_one = b
    if a and (not b or a == b or before(a, b)) then next_one, i = a, i + 1 end
    if next_one == b then j = j + 1 end
    ids[#ids + 1] = string.sub(next_one, #key + 2)
  end
  if #ids < n then return ids, '' end
  return ids, ids[n]
end
