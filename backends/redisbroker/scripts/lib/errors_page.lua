-- @include errors

-- errors_page looks for a text at n errors, in the order and from the cursor of timed. It returns the IDs of jobs whose entries
-- have the text, perhaps in the place, the next cursor, how many it looked at, and the number of each ID among those.
local function errors_page(q, text, cursor, n, after, upto, newest)
  local low, high = '', string.rep('9', 16) .. '\255' -- no ID has this byte, or a zero byte
  if after ~= '' then low = timed_cause(after) end
  if upto ~= '' then high = timed_cause(upto) end
  if cursor ~= '' then
    local at, id = string.match(cursor, '^(%d+):(.*)$')
    local place = timed_cause(at) .. id
    if newest then high = place else low = place .. '\1' end
  end
  -- The first place from low may stand in the last block that begins before it.
  local first = redis.call('ZRANGE', q.causes, '[' .. ERRORS .. low, '[' .. ERRORS, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
  local from, to, most = '[' .. (first or ERRORS .. low), '(' .. ERRORS .. high, math.floor(n / BLOCK_ENTRIES) + 2
  local blocks = newest and redis.call('ZRANGE', q.causes, to, from, 'BYLEX', 'REV', 'LIMIT', 0, most)
    or redis.call('ZRANGE', q.causes, from, to, 'BYLEX', 'LIMIT', 0, most)
  local ids, places, looked, last = {}, {}, 0, ''
  local find, byte = string.find, string.byte -- a million errors pass here
  for b, block in ipairs(blocks) do
    local count = byte(block, -1)
    if b > 1 and b < #blocks and looked + count < n and not find(block, text, 1, true) then
      looked = looked + count
    else
      local entries = entries_of(block)
      local start, stop, step = 1, #entries, 1
      if newest then start, stop, step = #entries, 1, -1 end
      for i = start, stop, step do
        local e = entries[i]
        if not precedes(e.place, low) and precedes(e.place, high) then
          if looked == n then return ids, last, looked, places end
          looked, last = looked + 1, int(tonumber(string.sub(e.place, 1, 16))) .. ':' .. string.sub(e.place, 17)
          if find(e.text, text, 1, true) then ids[#ids + 1], places[#places + 1] = string.sub(e.place, 17), looked end
        end
      end
    end
  end
  if #blocks < most then last = '' end
  return ids, last, looked, places
end
