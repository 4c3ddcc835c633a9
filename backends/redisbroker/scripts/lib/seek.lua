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

-- find_ready looks for a ready entry, first in the first and the last piece, where it usually is. It returns
-- the number of the piece, the piece without the entry, and the span; nil if there is no such entry.
local function find_ready(q, key, p, wanted)
  local span = span_for(q, p, key)
  local head, tail = ends_of(span)
  for i = 0, tail - head do
    local number = i == 0 and head or i == 1 and tail or head + i - 1
    local piece = piece_of(q, p .. key, span, number)
    local from, to = string.find('\n' .. piece, '\n' .. wanted .. '\n', 1, true)
    if from then return number, string.sub(piece, 1, from - 1) .. string.sub(piece, to), span end
  end
end
