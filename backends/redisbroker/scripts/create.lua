-- create: make a queue, or say how an existing one is laid out.
--
-- KEYS   record plain plain* leases heads lease_ends worker_infos lease_counts workers
--        ended_workers unreclaimed cancels unique remembered by_key scheduled retry dead suppressed
--        completed cancelled lapses void_turns held line spans rings* blocked thawing active_keys
--        ended_keys key_policies key_rates key_heads ready* token quiet bodies*
-- ARGV   now queues buckets
-- Reply  {0} made or there already; a refusal; {BUSY} when keys of something
--        else are in the way
-- @include open

local q = open()
if not q.refused then return {0} end
if q.refused[1] ~= ABSENT then return q.refused end
if redis.call('EXISTS', unpack(KEYS)) > 0 then return {BUSY} end

-- A guard is an entry of more than 64 bytes, which keeps a hash or a sorted
-- set out of the compact form in which each look-up is a scan.
redis.call('HSET', q.record, 'v', LAYOUT, 'B', q.buckets)
redis.call('SET', q.plain, 0)
local guard = string.rep('\0', 65)
for _, hash in ipairs({q.leases, q.heads, q.lease_counts, q.workers, q.line, q.spans}) do redis.call('HSET', hash, '', guard) end
for i = 1, q.buckets do redis.call('HSET', q.bodies[i], '', guard) end
for _, set in ipairs({q.lease_ends, q.scheduled, q.retry}) do redis.call('ZADD', set, '+inf', guard) end
for p = 1, 4 do redis.call('ZADD', q.rings[p], '+inf', guard) end
return {0}
