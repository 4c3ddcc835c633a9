-- @include bodies

-- emptied gives a job whose body is lost an empty one, so that it can be found
-- where it ends, and returns that.
local function emptied(q, id)
  redis.call('HSET', q.bodies[bucket(q, id)], id, '')
  return ''
end
