-- @include locate
-- @include rings

-- append_ready adds a pending job's ready entry at the end of its priority's ready list or, if its index has a
-- key, at the end of the entries of its key and priority.
local function append_ready(q, f, epoch, id)
  local p = priority_of(f)
  if f[KEY] then
    redis.call('ZREM', q.by_key, f[KEY] .. '\0' .. id)
    add_keyed(q, {f[KEY], p, epoch, id})
  else
    redis.call('LPUSH', q.ready[tonumber(p)], ready_entry(epoch, id))
  end
end
