-- bucket is the number of the hash that holds a job's body. Go computes the
-- same in bucketOf.
local function bucket(id, n)
  if n == 1 then return 1 end
  local h = 0
  for i = math.max(1, #id - 7), #id do
    h = (h * 31 + string.byte(id, i)) % 65536
  end
  return h % n + 1
end

-- by_bucket sorts ids into lists by bucket, beside their places in ids.
local function by_bucket(q, ids)
  local lists, places = {}, {}
  for i = 1, #ids do
    local b = bucket(ids[i], q.buckets)
    if not lists[b] then lists[b], places[b] = {}, {} end
    local n = #lists[b] + 1
    lists[b][n], places[b][n] = ids[i], i
  end
  return lists, places
end
