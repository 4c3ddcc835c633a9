-- @include bodies

-- bodies reads the stored bodies of ids, false where there is none.
local function bodies(q, ids)
  if q.buckets == 1 then return redis.call('HMGET', q.b[1], unpack(ids)) end
  local all = {}
  local lists, places = by_bucket(q, ids)
  for b, list in pairs(lists) do
    local some = redis.call('HMGET', q.b[b], unpack(list))
    for i = 1, #list do all[places[b][i]] = some[i] end
  end
  return all
end
