-- @include entry
-- @include ended

-- put_job makes a job pending, before the others if front is set. If a set is given, it instead adds the job to
-- the set, due at a time.
local function put_job(q, id, priority, epoch, key, set, at, front)
  if key and set then redis.call('ZADD', q.by_key, 0, key .. '\0' .. id) end
  if key and not set then redis.call('ZREM', q.by_key, key .. '\0' .. id) end
  if set then
    local due = next_due(q)
    add_guarded(set, {int(at), entry(priority, int(epoch), id, key)})
    if not due or at < due then wake(q) end
  elseif key then
    local first_one = is_head(q, key, id)
    local woken = add_keyed(q, {key, priority, int(epoch), id}, front or first_one)
    if first_one then woken = free_keys(q, {key}) or woken end
    if woken then wake(q) end
  else
    redis.call(front and 'RPUSH' or 'LPUSH', q.ready[tonumber(priority)], ready_entry(int(epoch), id))
    wake(q)
  end
end
