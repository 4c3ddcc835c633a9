-- uvarint reads the number at byte i of s. It returns the number and the index of the next byte, or nil if s
-- ends too early.
local function uvarint(s, i)
  local n, unit = 0, 1
  while true do
    local c = string.byte(s, i)
    if not c then return nil end
    i = i + 1
    if c < 128 then return n + c * unit, i end
    n = n + (c - 128) * unit
    unit = unit * 128
  end
end

-- Fields of a body's index (package broker, body.go). Numbers are stored
-- doubled (zigzag).
local UNIQUE_KEY, UNIQUE_MODE, UNIQUE_TTL, KEY, GIVEN, PRIORITY = 1, 2, 3, 4, 5, 6
-- Only leases have this field. In a lease of epoch 0 it comes first, and says that the job has a
-- head, since its handler has kept something.
local KEPT, KEPT_FIELD = 7, '\14\2'
local UNTIL_STARTED, WINDOW = 2, 4 -- values of UNIQUE_MODE, doubled

-- fields reads the fields of s from byte i to byte j, up to field number last.
local function fields(s, i, j, last)
  local f = {}
  while i <= j do
    local tag, v
    tag, i = uvarint(s, i)
    if not tag then break end
    v, i = uvarint(s, i)
    if not v then break end
    local number = math.floor(tag / 2)
    if number > last then break end
    if tag % 2 == 1 then
      f[number] = string.sub(s, i, i + v - 1)
      i = i + v
    else
      f[number] = v
    end
  end
  return f
end

-- index_of returns the index of a stored body, and where the rest of the body begins. A body is eight
-- bytes of creation time, a version, the length of the index, the index, and other fields.
local function index_of(body)
  local size, at = uvarint(body, 10)
  if not size or at + size - 1 > #body then return '', #body + 1 end
  return string.sub(body, at, at + size - 1), at + size
end

-- parse_index reads an index. Many jobs have the same one and share the table that it returns.
local parsed = {}
local function parse_index(index)
  local f = parsed[index]
  if not f then
    f = fields(index, 1, #index, KEPT)
    parsed[index] = f
  end
  return f
end
