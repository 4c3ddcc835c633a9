-- @include layout
-- @include why

-- open returns the keys of the call's next queue, and a list with the layout version, the number of
-- buckets and the named fields of the queue's record. If the call has only the one bucket of all jobs
-- that it names, q.buckets is 1. If q.refused is set, the script must not change the queue. HAS_BODIES
-- says whether the script gets the keys of buckets: only then must their number be right.
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
  elseif HAS_BODIES and buckets ~= n then
    q.refused = {BUCKETS, buckets}
  end
  return q, m
end
