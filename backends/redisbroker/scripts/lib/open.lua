-- @include layout
-- @include why

-- open names the keys of the call's next queue and reads its record: the
-- fields named, behind the layout version and the number of buckets. The call's number
-- of buckets is negative when it is given one bucket, of all the jobs that it names:
-- then q.buckets is 1, whatever the queue's. With q.refused set, the queue may not
-- be touched.
local opened, offset = 0, 0
local function open(...)
  opened = opened + 1
  local n = tonumber(ARGV[2 + opened])
  local q
  q, offset = names(offset, n < 0 and 1 or n)
  local m = redis.call('HMGET', q.record, 'v', 'B', ...)
  local version, buckets = tonumber(m[1]), tonumber(m[2] or 0)
  if not version then
    q.refused = {ABSENT}
  elseif version > LAYOUT then
    q.refused = {NEWER, version}
  elseif buckets ~= math.abs(n) then
    q.refused = {BUCKETS, buckets}
  end
  return q, m
end

-- first is the place of the first argument behind those every script has.
local first = 3 + tonumber(ARGV[2])
