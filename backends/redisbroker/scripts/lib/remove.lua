-- @include bodies

-- remove deletes the bodies of some jobs, and the heads of the jobs in aged; without aged, of all.
local function remove(q, ids, aged)
  if #ids == 0 then return end
  local n = 0
  if together(q, ids) then n = redis.call('HDEL', q.bodies[bucket(q, ids[1])], unpack(ids)) end
  if n < #ids and q.buckets > 1 then
    for b, list in pairs(by_bucket(q, ids, 0)) do redis.call('HDEL', q.bodies[b], unpack(list)) end
  end
  aged = aged or ids
  if #aged > 0 then redis.call('HDEL', q.heads, unpack(aged)) end
end
