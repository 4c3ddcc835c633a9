-- @include layout
-- @include why

-- open names the keys of the call's next queue and reads its record: the
-- fields named, behind the layout version and the number of buckets. A call that is
-- given the one bucket of all the jobs that it names has q.buckets 1, whatever the
-- queue's. With q.refused set, the queue may not be touched.
local opened, offset = 0, 0
local function open(...)
  local n = tonumber(ARGV[first.buckets + opened])
  local q
  q, offset = names(offset, n)
  opened = opened + 1
  local m = redis.call('HMGET', q.record, 'v', 'B', ...)
  local version, buckets = tonumber(m[1]), tonumber(m[2] or 0)
  if not version then
    q.refused = {ABSENT}
  elseif version > LAYOUT then
    q.refused = {NEWER, version}
  elseif buckets ~= n then
    q.refused = {BUCKETS, buckets}
  end
  return q, m
end
