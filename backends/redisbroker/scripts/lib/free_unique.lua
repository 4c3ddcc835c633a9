-- @include index

-- free_unique frees the unique key that a job's index names, if the job holds it. It returns the key and, if
-- there is one, the ID of the job behind. It does not free a window, which may outlive its job.
local function free_unique(q, f, id)
  local key = f[UNIQUE_KEY]
  if not key or f[UNIQUE_MODE] == WINDOW then return end
  local held = redis.call('HGET', q.unique, key)
  if not held then return end
  local holder, next = string.match(held, '^%d+:([^\n]*)\n?(.*)$')
  if holder == id then
    redis.call('HDEL', q.unique, key)
    return key, next ~= '' and next
  end
end
