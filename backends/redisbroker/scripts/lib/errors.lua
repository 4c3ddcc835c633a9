-- @include causes
-- @include key_range

-- q.causes has the last errors of dead jobs in blocks, in the order of death and ID. They are in blocks because the cost of a text
-- search depends on the number of members, and hardly on their size. A block is a member: ERRORS, its entries, in four digits the
-- byte at which the last entry begins, and a byte with the number of entries.

local ERRORS = 'm\0' -- the beginning of each block
local BLOCK_END = 5 -- the bytes after the entries of a block

-- In a larger block, an entry costs less to search and more to add. With these bounds, a search costs a third of what it costs
-- with single entries; larger blocks save little more.
local BLOCK_ENTRIES, BLOCK_BYTES = 8, 2048

-- precedes reports whether a position comes before another. Digits sort by bytes in any locale.
local function precedes(a, b)
  local s, t = string.sub(a, 1, 16), string.sub(b, 1, 16)
  if s ~= t then return s < t end
  return before(string.sub(a, 17), string.sub(b, 17))
end

-- An entry is its position (time of death and ID), "\0", the length of the error, "\0", and the error.
local function error_entry(position, message) return position .. '\0' .. #message .. '\0' .. message end

-- block_end returns the bytes after the entries of a block.
local function block_end(last, count) return string.format('%04d', last) .. string.char(count) end

local ENTRY = '^(' .. string.rep('%d', 16) .. '[^%z]+)%z(%d+)%z()' -- position, length, and where the error begins

-- entries_of returns the entries of a block, and whether they are all that it has.
local function entries_of(block)
  local entries, at, last, size = {}, #ERRORS + 1, 0, #block - BLOCK_END
  while at <= size do
    local position, length, from = string.match(block, ENTRY, at)
    if not position or from + tonumber(length) > size + 1 then return entries, false end
    last, at = at, from + tonumber(length)
    entries[#entries + 1] = {position = position, text = string.sub(block, last, at - 1)}
  end
  return entries, #entries > 0 and string.sub(block, size + 1) == block_end(last, #entries)
end

-- put_block stores entries as a block. Four digits are enough for all errors that servers store. Imported errors may be longer:
-- then each entry gets a block of its own.
local put_block
function put_block(q, entries)
  if #entries == 0 then return end
  local parts, last = {ERRORS}, #ERRORS + 1
  for i, e in ipairs(entries) do
    parts[i + 1] = e.text
    if i < #entries then last = last + #e.text end
  end
  if last > 9999 then
    for _, e in ipairs(entries) do put_block(q, {e}) end
    return
  end
  redis.call('ZADD', q.causes, 0, table.concat(parts) .. block_end(last, #entries))
end

-- block_of returns the block that has the entry of a position, if there is such an entry: the last block that begins at or before
-- the position.
local function block_of(q, position)
  return redis.call('ZRANGE', q.causes, '(' .. ERRORS .. position .. '\1', '[' .. ERRORS, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
end

-- error_at returns the entry of a position, its index in its block, the entries of that block, and the block. If there is no entry,
-- the index is that of the last entry before the position.
local function error_at(q, position)
  local block = block_of(q, position)
  local entries = block and entries_of(block) or {}
  local i = #entries
  while i > 0 and precedes(position, entries[i].position) do i = i - 1 end
  return i > 0 and entries[i].position == position and entries[i], i, entries, block
end

-- append_error stores an error after all others, if it belongs there, and reports whether it does. Nearly all do, since jobs die in
-- the order of time.
local function append_error(q, position, entry)
  local block = redis.call('ZRANGE', q.causes, '(' .. ERRORS .. ':', '[' .. ERRORS, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
  local entries, size, count = '', #ERRORS, 0
  if block then
    size = #block - BLOCK_END
    local last = string.match(block, '^[^%z]+', tonumber(string.sub(block, size + 1, size + 4)))
    if not last or not precedes(last, position) then return false end
    count = string.byte(block, -1)
    if count < BLOCK_ENTRIES and size + #entry <= BLOCK_BYTES then
      redis.call('ZREM', q.causes, block)
      entries = string.sub(block, #ERRORS + 1, size)
    else
      size, count = #ERRORS, 0
    end
  end
  redis.call('ZADD', q.causes, 0, ERRORS .. entries .. entry .. block_end(size + 1, count + 1))
  return true
end

-- insert_error stores an error between others, or instead of an earlier error at the same position.
local function insert_error(q, position, entry)
  local old, i, entries, block = error_at(q, position)
  if not block then -- perhaps there is room in the first block
    block = redis.call('ZRANGE', q.causes, '[' .. ERRORS, '(' .. ERRORS .. ':', 'BYLEX', 'LIMIT', 0, 1)[1]
    entries = block and entries_of(block) or {}
  end
  if not old then
    i = i + 1
    table.insert(entries, i, false)
  end
  entries[i] = {position = position, text = entry}
  if block then redis.call('ZREM', q.causes, block) end
  local bytes = 0
  for _, e in ipairs(entries) do bytes = bytes + #e.text end
  local rest = {}
  if #entries > 1 and (#entries > BLOCK_ENTRIES or bytes > BLOCK_BYTES) then
    -- An entry at an end begins a new block, so that blocks are full if jobs come in order, or in reverse order.
    local keep = (i == 1 or i == #entries) and math.max(1, i - 1) or math.floor(#entries / 2)
    for at = #entries, keep + 1, -1 do table.insert(rest, 1, table.remove(entries, at)) end
  end
  put_block(q, entries)
  put_block(q, rest)
end

-- add_error stores the last error of a job, instead of one at the same position.
local function add_error(q, position, message)
  local entry = error_entry(position, message)
  if not append_error(q, position, entry) then insert_error(q, position, entry) end
end

-- remove_error undoes add_error. It cuts the entry out, which costs a third of reading all entries of the block.
local function remove_error(q, position)
  local block = block_of(q, position)
  local at, previous, size = #ERRORS + 1, 0, block and #block - BLOCK_END or 0
  while at <= size do
    local found, length, from = string.match(block, ENTRY, at)
    if not found then return end
    local behind = from + tonumber(length)
    if found == position then
      redis.call('ZREM', q.causes, block)
      local last, count = tonumber(string.sub(block, size + 1, size + 4)) or 0, string.byte(block, -1)
      if at == last then last = previous else last = last - (behind - at) end
      if count < 2 then return end
      redis.call('ZADD', q.causes, 0, string.sub(block, 1, at - 1) .. string.sub(block, behind, size) .. block_end(last, count - 1))
      return
    end
    previous, at = at, behind
  end
end
