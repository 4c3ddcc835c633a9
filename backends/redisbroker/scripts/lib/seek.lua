-- @include span

-- first_ready returns the first ready entry of a key and priority, or nil.
local function first_ready(q, key, p)
  local span = span_for(q, p, key)
  local head, tail = ends_of(span)
  for number = head, tail do
    local found = string.match(piece_of(q, p .. key, span, number), '^[^\n]+')
    if found then return found end
  end
end

-- find_ready looks for a ready entry. It returns the number of the piece, the piece without the entry, and the
-- span; nil if there is no such entry. It looks at the ends first, and then where the call found the last entry of
-- the key. Then it searches by halves, since most entries are in the order of their IDs.
local found_last = {}
local function find_ready(q, key, p, wanted)
  local field, span = p .. key, span_for(q, p, key)
  local head, tail = ends_of(span)

  local function look(number)
    local piece = piece_of(q, field, span, number)
    local from, to = string.find('\n' .. piece, '\n' .. wanted .. '\n', 1, true)
    if not from then return false, piece end
    found_last[field] = number
    return string.sub(piece, 1, from - 1) .. string.sub(piece, to), piece
  end

  local near = found_last[field] or head
  for _, number in ipairs({head, tail, near, near + 1, near - 1}) do
    local rest = number >= head and number <= tail and look(number)
    if rest then return number, rest, span end
  end
  local low, high, id = head + 1, tail - 1, id_of_ready(wanted)
  while low <= high do
    local middle = math.floor((low + high) / 2)
    local rest, piece = look(middle)
    if rest then return middle, rest, span end
    local first_one = string.match(piece, '^[^\n]+')
    if not first_one then break end
    if id_of_ready(first_one) < id then low = middle + 1 else high = middle - 1 end
  end
  for number = head + 1, tail - 1 do
    local rest = look(number)
    if rest then return number, rest, span end
  end
end
