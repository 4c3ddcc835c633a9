-- @include errors

local BEGINNING = '^(' .. string.rep('%d', 16) .. ')([^%z]+)' -- time and ID of the first entry of a block

-- cursor_at returns the cursor after a position.
local function cursor_at(position) return int(tonumber(string.sub(position, 1, 16))) .. ':' .. string.sub(position, 17) end

-- errors_page searches n errors for a text, in the same order and with the same cursors as timed. It returns the IDs of jobs whose
-- entries have the text (perhaps only in the ID), the next cursor, how many entries it searched, and the position of each ID among
-- these.
local function errors_page(q, text, cursor, n, after, upto, newest)
  local low, high = '', string.rep('9', 16) .. '\255' -- no ID has this byte, or a zero byte
  if after ~= '' then low = timed_cause(after) end
  if upto ~= '' then high = timed_cause(upto) end
  if cursor ~= '' then
    local at, id = string.match(cursor, '^(%d+):(.*)$')
    local position = timed_cause(at) .. id
    if newest then high = position else low = position .. '\1' end
  end
  -- The first position at or after low may be in the last block that begins before low.
  local first = redis.call('ZRANGE', q.causes, '[' .. ERRORS .. low, '[' .. ERRORS, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
  local from, to, most = '[' .. (first or ERRORS .. low), '(' .. ERRORS .. high, math.floor(n / BLOCK_ENTRIES) + 2
  local blocks = newest and redis.call('ZRANGE', q.causes, to, from, 'BYLEX', 'REV', 'LIMIT', 0, most)
    or redis.call('ZRANGE', q.causes, from, to, 'BYLEX', 'LIMIT', 0, most)
  local ids, numbers, looked, last = {}, {}, 0, ''
  local find, byte = string.find, string.byte -- locals are faster, and this loop may search a million errors
  for b, block in ipairs(blocks) do
    local count = byte(block, -1)
    if b > 1 and b < #blocks and looked + count < n and not find(block, text, 1, true) then
      looked = looked + count
    else
      local entries = entries_of(block)
      local at, id = string.match(block, BEGINNING, #ERRORS + 1)
      if #entries == 0 and at and not precedes(at .. id, low) and precedes(at .. id, high) then
        last = cursor_at(at .. id) -- skip a block that cannot be read
      end
      local start, stop, step = 1, #entries, 1
      if newest then start, stop, step = #entries, 1, -1 end
      for i = start, stop, step do
        local e = entries[i]
        if not precedes(e.position, low) and precedes(e.position, high) then
          if looked == n then return ids, last, looked, numbers end
          looked, last = looked + 1, cursor_at(e.position)
          if find(e.text, text, 1, true) then ids[#ids + 1], numbers[#numbers + 1] = string.sub(e.position, 17), looked end
        end
      end
    end
  end
  if #blocks < most then last = '' end
  return ids, last, looked, numbers
end
