-- @include index

-- length encodes a number for uvarint.
local function length(n)
  local s = ''
  while n >= 128 do
    s = s .. string.char(n % 128 + 128)
    n = math.floor(n / 128)
  end
  return s .. string.char(n)
end

-- each_field calls f for every field after the index of a stored body, with the field's tag,
-- where the field begins, and where the next one begins. It returns false if the body cannot
-- be read.
local function each_field(body, f)
  local _, i = index_of(body)
  if string.byte(body, 9) ~= 1 or i > #body + 1 then return false end
  while i <= #body do
    local at, tag, v = i, nil, nil
    tag, i = uvarint(body, i)
    if not tag then return false end
    v, i = uvarint(body, i)
    if not v then return false end
    if tag % 2 == 1 then i = i + v end
    if i > #body + 1 then return false end
    f(tag, at, i)
  end
  return true
end

-- with_fields returns a stored body in which the text others replaces all fields whose tags are in
-- out. It is at the position of the first of these fields, or at the end if there are none. It
-- returns nil if the body cannot be read. See ReplacePayload and ReplaceContent of package broker.
local function with_fields(body, out, others)
  local parts, from = {}, 1
  local readable = each_field(body, function(tag, at, behind)
    if not out[tag] then return end
    parts[#parts + 1] = string.sub(body, from, at - 1)
    parts[#parts + 1] = others
    from, others = behind, ''
  end)
  if not readable then return nil end
  parts[#parts + 1] = string.sub(body, from)
  parts[#parts + 1] = others
  return table.concat(parts)
end

-- with_payload returns a stored body with another payload.
local function with_payload(body, payload)
  local field = ''
  if payload ~= '' then field = string.char(7) .. length(#payload) .. payload end
  return with_fields(body, {[7] = true}, field)
end

local TYPE = 3
-- CONTENT has the tags of the fields that a handler reads: type version, payload, headers, correlation
-- ID, idempotency key, reference to the payload.
local CONTENT = {[4] = true, [7] = true, [9] = true, [27] = true, [29] = true, [31] = true}

-- content_of returns a stored body's type, and the fields that a handler reads; nil if the body
-- cannot be read.
local function content_of(body)
  local kind, parts = '', {}
  local readable = each_field(body, function(tag, at, behind)
    local field = string.sub(body, at, behind - 1)
    if tag == TYPE then kind = field elseif CONTENT[tag] then parts[#parts + 1] = field end
  end)
  if readable then return kind, table.concat(parts) end
end
