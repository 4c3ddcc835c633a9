-- Common parts of examinations. The answer is {0, now, cursor, records, a list for the caller, then
-- per finding: code, ID, what is wrong, 1 if repaired, why not}.
local part, cursor, most, fixing = args.part, args.cursor, tonumber(args.most), args.repair == '1'
local records, told, findings = 0, {}, {}

-- found adds a finding, and repairs it if the call asks for that. The function repair returns nothing, or why
-- it could not repair.
local function found(code, id, what, repair)
  local left, fixed = '', 0
  if fixing then
    left = repair() or ''
    if left == '' then fixed = 1 end
  end
  for _, v in ipairs({code, id, what, fixed, left}) do findings[#findings + 1] = v end
end

local function answer(at)
  local reply = {0, now, at, records, told}
  for _, v in ipairs(findings) do reply[#reply + 1] = v end
  return reply
end

-- scanned pages through a hash. It returns up to most fields with their values, and the next cursor, which is
-- empty at the end. HSCAN may return more than a page, so the cursor is that of HSCAN and the last field taken
-- from its answer. HSCAN must not return more for the same cursor the next time, so its count n must not grow.
local function scanned(key, at, n, most)
  most = most or n
  local scan, last = '0', ''
  if at ~= '' then scan, last = string.match(at, '^(%d+):(.*)$') end
  local page = redis.call('HSCAN', key, scan, 'COUNT', n)
  local names, values = {}, {}
  for i = 1, #page[2], 2 do
    local name = page[2][i]
    if name > last then
      names[#names + 1] = name
      values[name] = page[2][i + 1]
    end
  end
  table.sort(names)
  local out = {}
  for i = 1, math.min(most, #names) do out[i] = {names[i], values[names[i]]} end
  records = records + #out
  if #names > most then return out, scan .. ':' .. names[most] end
  if page[1] == '0' then return out, '' end
  return out, page[1] .. ':'
end
