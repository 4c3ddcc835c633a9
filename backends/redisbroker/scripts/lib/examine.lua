-- Common parts of examinations. The answer is {0, now, cursor, records, a list for the caller, then
-- per finding: code, ID, what is wrong, 1 if repaired, why not}.
-- @include scan

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
-- empty at the end.
local function scanned(key, at, n, most)
  local names, values, after = scan_page(key, at, n, most or n)
  local out = {}
  for i, name in ipairs(names) do out[i] = {name, values[name]} end
  records = records + #out
  return out, after
end
