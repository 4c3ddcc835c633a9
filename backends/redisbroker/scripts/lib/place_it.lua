-- @include entry
-- @include ended

-- place_it makes a job pending, or due at a time in a set.
local function place_it(q, id, priority, epoch, key, set, at, front)
  if key and set then redis.call('ZADD', q.by_key, 0, key .. '\0' .. id) end
  if key and not set then redis.call('ZREM', q.by_key, key .. '\0' .. id) end
  if set then
    local due = next_due(q)
    redis.call('ZADD', set, int(at), entry(priority, int(epoch), id, key))
    if not due or at < due then wake(q) end
  elseif key then
    local first_one = is_head(q, key, id)
    local woken = join(q, {key, priority, int(epoch), id}, front or first_one)
    if first_one then woken = free_keys(q, {key}) or woken end
    if woken then wake(q) end
  else
    redis.call(front and 'RPUSH' or 'LPUSH', q.ready[tonumber(priority)], turn(int(epoch), id))
    wake(q)
  end
end
