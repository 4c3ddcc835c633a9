-- passed reports whether a cursor of HSCAN comes after another one: cursors rise when their bits are read backwards, and 0 is the end.
local function passed(a, b)
  local x, y = tonumber(a), tonumber(b)
  if x == y or y == 0 then return false end
  if x == 0 then return true end
  while x % 2 == y % 2 do x, y = math.floor(x / 2), math.floor(y / 2) end
  return x % 2 > y % 2
end

-- scan_page reads the next fields of a hash, sorted, up to most and about count. It returns them, their values, and the next cursor,
-- which is empty at the end. A cursor is that of HSCAN. HSCAN may return more than fits, even the whole hash. Then the cursor
-- also has the cursor that HSCAN returned, and the last field before the page ended: up to that cursor of HSCAN, fields up to that one
-- were seen. It is needed since HSCAN goes further than before when fields have left.
local function scan_page(key, cursor, count, most)
  local scan, bound, last = '0', '', ''
  if cursor ~= '' then scan, bound, last = string.match(cursor, '^(%d+):(%d*):(.*)$') end
  local step = bound == '' and count or 1
  while true do
    local page, names, values = redis.call('HSCAN', key, scan, 'COUNT', int(step)), {}, {}
    local within = bound ~= '' and not passed(page[1], bound)
    for i = 1, #page[2], 2 do
      local name = page[2][i]
      if name ~= '' and not (within and name <= last) then
        names[#names + 1] = name
        values[name] = page[2][i + 1]
      end
    end
    if #names <= most or step == 1 then
      table.sort(names)
      if #names > most then
        for i = #names, most + 1, -1 do names[i] = nil end
        return names, values, scan .. ':' .. page[1] .. ':' .. (names[most] or last)
      end
      if page[1] == '0' then return names, values, '' end
      if within and page[1] ~= bound then return names, values, page[1] .. ':' .. bound .. ':' .. last end
      return names, values, page[1] .. '::'
    end
    step = math.floor(step / 2)
  end
end
