-- @include bodies

-- bodies returns the stored bodies of some jobs; false for a job without a body.
local function bodies(q, ids)
  local all, others, b = {}, ids, 0
  if together(q, ids) then
    b = bucket(q, ids[1])
    all = redis.call('HMGET', q.bodies[b], unpack(ids))
    if q.buckets == 1 then return all end
    others = {}
    for i = 1, #ids do
      if not all[i] and bucket(q, ids[i]) ~= b then others[#others + 1] = ids[i] end
    end
    if #others == 0 then return all end
  end
  local found = {}
  for of, list in pairs(by_bucket(q, others, 0)) do
    local some = redis.call('HMGET', q.bodies[of], unpack(list))
    for i = 1, #list do found[list[i]] = some[i] end
  end
  for i = 1, #ids do all[i] = all[i] or found[ids[i]] or false end
  return all
end
