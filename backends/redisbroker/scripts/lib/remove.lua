-- @include bodies

-- remove deletes the bodies and heads of ids.
local function remove(q, ids)
  if #ids == 0 then return end
  if q.buckets == 1 then
    redis.call('HDEL', q.b[1], unpack(ids))
  else
    for b, list in pairs((by_bucket(q, ids))) do
      redis.call('HDEL', q.b[b], unpack(list))
    end
  end
  if redis.call('HLEN', q.h) > 1 then redis.call('HDEL', q.h, unpack(ids)) end
end
