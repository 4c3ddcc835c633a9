-- @include bodies

-- emptied stores an empty body for a job whose body is lost, so that the job can be found when
-- it has ended, and returns that body.
local function emptied(q, id)
  redis.call('HSET', q.bodies[bucket(q, id)], id, '')
  return ''
end
