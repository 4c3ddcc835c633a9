-- drop: remove a queue that has no jobs and no live workers.
--
-- KEYS   m p a h w wi k s x n c u ids i z y d ds f g l v o r* t b*
-- ARGV   now; 1; buckets
-- Reply  {0, now, 1 removed or 0 in use}; a refusal
-- @include clock
-- @include open

local q = open()
if q.refused then return q.refused end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', q.w, '(' .. int(now), '+inf', 'LIMIT', 0, 1)) do
  if string.byte(id) ~= 0 then return {0, now, 0} end
end
for i = 1, q.buckets do
  if redis.call('HLEN', q.b[i]) > 1 then return {0, now, 0} end
end
redis.call('UNLINK', unpack(KEYS))
return {0, now, 1}
