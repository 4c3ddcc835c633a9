-- @include any_keyed
-- @include ready_entry

-- The ready entries of a key's pending jobs of a priority are pieces of text: entries in order, each
-- followed by a newline. The hash key_spans has for each priority and key how many entries there are, the
-- numbers of the first and the last piece, a newline, and the first piece. The hash key_pieces has the
-- other pieces: priority, key, "\0" and number → piece. A piece between is not stored if it is empty. The numbers of
-- pieces stay strings, which are cheaper, until a script calculates with them.
local function span_of(text)
  if not text then return {n = 0, head = '1', tail = '1', piece = ''} end
  local n, head, tail, first_piece = string.match(text, '^(%d+) (%-?%d+) (%-?%d+)\n(.*)$')
  return {n = tonumber(n or 0), head = head or '1', tail = tail or '1', piece = first_piece or ''}
end

local function span_text(n, head, tail, piece) return int(n) .. ' ' .. head .. ' ' .. tail .. '\n' .. piece end

local function ends_of(span) return tonumber(span.head), tonumber(span.tail) end

local function piece_field(field, number) return field .. '\0' .. number end

local function span_for(q, p, key) return span_of(redis.call('HGET', q.key_spans, p .. key)) end

-- piece_of returns a piece of a span by its number.
local function piece_of(q, field, span, number)
  if number == tonumber(span.head) then return span.piece end
  return redis.call('HGET', q.key_pieces, piece_field(field, number)) or ''
end

-- pending_of returns the number of a key's pending jobs, by priority and in total.
local function pending_of(q, key)
  local n, sum = redis.call('HMGET', q.key_spans, '1' .. key, '2' .. key, '3' .. key, '4' .. key), 0
  for p = 1, 4 do
    n[p] = tonumber(string.match(n[p] or '', '^%d+') or 0)
    sum = sum + n[p]
  end
  return n, sum
end
