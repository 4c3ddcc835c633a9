-- @include bodies

-- emptied stores and returns an empty body for a job whose body is lost, so that the job is still found
-- after it has ended.
local function emptied(q, id)
  redis.call('HSET', q.bodies[bucket(q, id)], id, '')
  return ''
end
