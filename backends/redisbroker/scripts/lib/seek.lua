-- @include span

-- first_turn is the first turn of a key and priority, or nil.
local function first_turn(q, key, p)
  local head, tail = ends_of(span_for(q, p, key))
  for number = head, tail do
    local t = string.match(redis.call('HGET', q.line, piece_field(p .. key, number)) or '', '^[^\n]+')
    if t then return t end
  end
end

-- find_turn looks for a turn, first where it most often is: it returns the number and the
-- text of its piece, the text without it, and the span.
local function find_turn(q, key, p, t)
  local span = span_for(q, p, key)
  local head, tail = ends_of(span)
  for i = 0, tail - head do
    local number = i == 0 and head or i == 1 and tail or head + i - 1
    local piece = redis.call('HGET', q.line, piece_field(p .. key, number)) or ''
    local from, to = string.find('\n' .. piece, '\n' .. t .. '\n', 1, true)
    if from then return number, string.sub(piece, 1, from - 1) .. string.sub(piece, to), span end
  end
end
