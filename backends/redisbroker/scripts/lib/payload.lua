-- @include index

-- length writes a number as uvarint reads it.
local function length(n)
  local s = ''
  while n >= 128 do
    s = s .. string.char(n % 128 + 128)
    n = math.floor(n / 128)
  end
  return s .. string.char(n)
end

-- with_payload is a stored body with another payload, field 3, and all else as it
-- is; nil when it cannot be read: package broker, ReplacePayload.
local function with_payload(body, payload)
  local _, start = index_of(body)
  if string.byte(body, 9) ~= 1 or start > #body + 1 then return nil end
  local field = ''
  if payload ~= '' then field = string.char(7) .. length(#payload) .. payload end
  local parts, from, i = {}, 1, start
  while i <= #body do
    local at, tag, v = i, nil, nil
    tag, i = uvarint(body, i)
    if not tag then return nil end
    v, i = uvarint(body, i)
    if not v then return nil end
    if tag % 2 == 1 then i = i + v end
    if i > #body + 1 then return nil end
    if tag == 7 then
      parts[#parts + 1] = string.sub(body, from, at - 1)
      parts[#parts + 1] = field
      from, field = i, ''
    end
  end
  parts[#parts + 1] = string.sub(body, from)
  parts[#parts + 1] = field
  return table.concat(parts)
end
