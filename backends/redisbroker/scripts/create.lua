-- create: make a queue, or say how an existing one is laid out.
--
-- KEYS   m p p* a h w wi k s x n c u ids i z y d ds f g l v o r* t b*
-- ARGV   now; 1; buckets
-- Reply  {0} made or there already; a refusal; {BUSY} when keys of something
--        else are in the way
-- @include open

local q = open()
if not q.refused then return {0} end
if q.refused[1] ~= ABSENT then return q.refused end
if redis.call('EXISTS', unpack(KEYS)) > 0 then return {BUSY} end

-- A guard is an entry of more than 64 bytes, which keeps a hash or a sorted
-- set out of the compact form in which each look-up is a scan.
redis.call('HSET', q.m, 'v', LAYOUT, 'B', q.buckets)
redis.call('SET', q.p, LAYOUT)
local guard = string.rep('\0', 65)
for _, hash in ipairs({q.a, q.h, q.k, q.s}) do redis.call('HSET', hash, '', guard) end
for i = 1, q.buckets do redis.call('HSET', q.b[i], '', guard) end
for _, set in ipairs({q.w, q.z, q.y}) do redis.call('ZADD', set, '+inf', guard) end
return {0}
