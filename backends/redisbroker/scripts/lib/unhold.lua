-- @include index

-- unhold frees the unique key that a job's index names, if the job holds it.
-- A window outlives its job.
local function unhold(q, f, id)
  local key = f[UNIQUE_KEY]
  if not key or f[UNIQUE_MODE] == WINDOW then return end
  local held = redis.call('HGET', q.unique, key)
  if held and string.sub(held, string.find(held, ':', 1, true) + 1) == id then
    redis.call('HDEL', q.unique, key)
  end
end
