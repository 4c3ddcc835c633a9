-- @include wake
-- @include rings
-- @include seek

-- leave_ring removes a key from the ring of a priority in which it has no pending jobs.
local function leave_ring(q, key, p)
  redis.call('ZREM', q.rings[p], key)
  local _, sum = pending_of(q, key)
  if sum == 0 then
    redis.call('ZREM', q.blocked, key)
    if redis.call('ZREM', q.rechecked, key) == 1 and recheck_again(q) then wake(q) end
  end
end

-- clear_pieces removes the pieces of a key and priority without pending jobs.
local function clear_pieces(q, field, span)
  redis.call('HDEL', q.key_spans, field)
  local head, tail = ends_of(span)
  for number = head + 1, tail do redis.call('HDEL', q.key_pieces, piece_field(field, number)) end
end

-- remove_ready removes a ready entry of a key. It reports whether the entry existed.
local function remove_ready(q, key, p, e)
  local number, rest, span = find_ready(q, key, p, e)
  if not number then return false end
  local field = p .. key
  span.n = span.n - 1
  redis.call('HINCRBY', q.record, 'keyed', -1)
  if span.n <= 0 then
    clear_pieces(q, field, span)
    unlist_keys(q, {key}, p)
    leave_ring(q, key, tonumber(p))
    return true
  end
  local head, tail = ends_of(span)
  if number == head then
    span.piece = rest
    while span.piece == '' and head < tail do -- a later piece becomes the first, so that claims do not pass empty ones
      head = head + 1
      span.piece = redis.call('HGET', q.key_pieces, piece_field(field, head)) or ''
      redis.call('HDEL', q.key_pieces, piece_field(field, head))
    end
    span.head = head
  elseif rest ~= '' then
    redis.call('HSET', q.key_pieces, piece_field(field, number), rest)
  else
    redis.call('HDEL', q.key_pieces, piece_field(field, number)) -- a piece that is not stored is empty
    if number == tail then span.tail = number - 1 end
  end
  redis.call('HSET', q.key_spans, field, span_text(span.n, span.head, span.tail, span.piece))
  return true
end

-- remove_keyed removes the ready entry of a job with a key. If the job is the head of its key, it stays the head.
local function remove_keyed(q, key, p, epoch, id)
  remove_ready(q, key, p, ready_entry(epoch, id))
  if is_head(q, key, id) then redis.call('HSET', q.key_heads, key, id) end
end
