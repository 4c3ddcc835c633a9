-- @include layout
-- @include why

-- open names the keys of the call's next queue and reads its record: the
-- fields named, behind the layout version and the number of buckets. That is a
-- thousand more in layout 1, which chose among several in another way. It is
-- negative when the call is given one bucket, of all the jobs that it names: then
-- q.buckets is 1, whatever the queue's. With q.refused set, the queue may not be
-- touched.
local opened, offset = 0, 0
local function open(...)
  opened = opened + 1
  local n = tonumber(ARGV[2 + opened])
  local q
  q, offset = names(offset, n < 0 and 1 or n % 1000)
  local m = redis.call('HMGET', q.m, 'v', 'B', ...)
  local version, buckets = tonumber(m[1]), tonumber(m[2] or 0)
  if not version then
    q.refused = {ABSENT}
  elseif version > LAYOUT then
    q.refused = {NEWER, version}
  else
    q.old = version == 1 and buckets > 1
    if q.old then buckets = buckets + 1000 end
    if buckets ~= math.abs(n) then q.refused = {BUCKETS, buckets} end
  end
  return q, m
end

-- first is the place of the first argument behind those every script has.
local first = 3 + tonumber(ARGV[2])
