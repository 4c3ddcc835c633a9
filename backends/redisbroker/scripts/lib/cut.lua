-- @include line
-- @include seek

-- unseat takes a key, which has no pending jobs of a priority any more, out of its ring.
local function unseat(q, key, p)
  redis.call('ZREM', q.rings[p], key)
  local _, sum = pending_of(q, key)
  if sum == 0 then
    redis.call('ZREM', q.blocked, key)
    redis.call('ZREM', q.thawing, key)
  end
end

-- clear_line drops what is left of a line that has no jobs any more.
local function clear_line(q, field, span)
  redis.call('HDEL', q.spans, field)
  local head, tail = ends_of(span)
  for number = head, tail do redis.call('HDEL', q.line, piece_field(field, number)) end
end

-- cut takes a turn out of line. It reports whether it was there.
local function cut(q, key, p, t)
  local number, rest, span = find_turn(q, key, p, t)
  if not number then return false end
  local field = p .. key
  span.n = span.n - 1
  redis.call('HINCRBY', q.record, 'keyed', -1)
  if span.n <= 0 then
    clear_line(q, field, span)
    unlist_keys(q, {key})
    unseat(q, key, tonumber(p))
    return true
  end
  local head, tail = ends_of(span)
  local inner = number > head and number < tail
  if rest ~= '' or inner then
    redis.call('HSET', q.line, piece_field(field, number), rest)
  else
    redis.call('HDEL', q.line, piece_field(field, number))
    if number == head then span.head = number + 1 else span.tail = number - 1 end
  end
  redis.call('HSET', q.spans, field, span_text(span))
  return true
end

-- part_with takes a job out of line, which is the head of its key no less for that.
local function part_with(q, key, p, epoch, id)
  cut(q, key, p, turn(epoch, id))
  if is_head(q, key, id) then redis.call('HSET', q.key_heads, key, id) end
end
