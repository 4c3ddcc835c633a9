-- @include layout
-- @include why

-- open names the keys of the call's next queue and reads its record: the
-- fields named, behind the layout version and the number of buckets. That is
-- negative when the call is given one bucket, of all the jobs that it names.
-- With q.refused set, the queue may not be touched.
local opened, offset = 0, 0
local function open(...)
  opened = opened + 1
  local n = tonumber(ARGV[2 + opened])
  local q
  q, offset = names(offset, math.max(n, 1))
  n = math.abs(n)
  local m = redis.call('HMGET', q.m, 'v', 'B', ...)
  if not m[1] then
    q.refused = {ABSENT}
  elseif tonumber(m[1]) > LAYOUT then
    q.refused = {NEWER, tonumber(m[1])}
  elseif tonumber(m[2]) ~= n then
    q.refused = {BUCKETS, tonumber(m[2])}
  elseif n > 1 and tonumber(m[1]) < 2 then
    q.refused = {OLDER, tonumber(m[1])}
  end
  return q, m
end

-- first is the place of the first argument behind those every script has.
local first = 3 + tonumber(ARGV[2])
