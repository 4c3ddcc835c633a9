-- @include errors
-- @include bodies

-- bury adds a job to the dead jobs, and to their index by type, reason and error.
local function bury(q, id, at, body, head)
  redis.call('ZADD', q.dead, int(at), id)
  local members, message, position = causes(id, at, body or '', head)
  for _, member in ipairs(members) do redis.call('ZADD', q.causes, 0, member) end
  if message then add_error(q, position, message) end
end

-- unbury undoes bury. The body and the head must still be stored and unchanged.
local function unbury(q, id)
  local at = redis.call('ZSCORE', q.dead, id)
  redis.call('ZREM', q.dead, id)
  if not at then return end
  local body = redis.call('HGET', q.bodies[bucket(q, id)], id) or ''
  local members, message, position = causes(id, at, body, redis.call('HGET', q.heads, id))
  if #members > 0 then redis.call('ZREM', q.causes, unpack(members)) end
  if message then remove_error(q, position) end
end
