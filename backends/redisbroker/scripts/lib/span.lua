-- @include turn

-- Pending jobs with a key stand in the hash line, in pieces: priority, key, "\0" and the
-- number of the piece → turns of jobs in their order, each with a line end behind it.
-- spans has for priority and key how many jobs these are, and the numbers of the first
-- and the last piece. A piece between may be empty.
local function span_of(text)
  local n, head, tail = string.match(text or '', '^(%d+) (%-?%d+) (%-?%d+)$')
  return {n = tonumber(n or 0), head = tonumber(head or 1), tail = tonumber(tail or 0)}
end

local function span_text(span) return int(span.n) .. ' ' .. int(span.head) .. ' ' .. int(span.tail) end

local function piece_field(field, number) return field .. '\0' .. int(number) end

local function span_for(q, p, key) return span_of(redis.call('HGET', q.spans, p .. key)) end

-- any_keyed reports whether jobs with a key are pending: spans has a guard besides.
local function any_keyed(q) return redis.call('HLEN', q.spans) > 1 end

-- pending_of counts the pending jobs of a key: of each priority, and in all.
local function pending_of(q, key)
  local n, sum = redis.call('HMGET', q.spans, '1' .. key, '2' .. key, '3' .. key, '4' .. key), 0
  for p = 1, 4 do
    n[p] = span_of(n[p]).n
    sum = sum + n[p]
  end
  return n, sum
end

-- first_turn is the first turn of a key and priority, or nil.
local function first_turn(q, key, p)
  local span = span_for(q, p, key)
  for number = span.head, span.tail do
    local t = string.match(redis.call('HGET', q.line, piece_field(p .. key, number)) or '', '^[^\n]+')
    if t then return t end
  end
end

-- find_turn looks for a turn, first where it most often is: it returns the number and the
-- text of its piece, the text without it, and the span.
local function find_turn(q, key, p, t)
  local span = span_for(q, p, key)
  for i = 0, span.tail - span.head do
    local number = i == 0 and span.head or i == 1 and span.tail or span.head + i - 1
    local piece = redis.call('HGET', q.line, piece_field(p .. key, number)) or ''
    local from, to = string.find('\n' .. piece, '\n' .. t .. '\n', 1, true)
    if from then return number, string.sub(piece, 1, from - 1) .. string.sub(piece, to), span end
  end
end
