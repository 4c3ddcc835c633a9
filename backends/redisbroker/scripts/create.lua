-- create: create a queue, or read the layout of an existing one.
--
-- KEYS   record plain plain* leases heads lease_ends worker_infos lease_counts workers
--        ended_workers unreclaimed cancels unique remembered by_key scheduled retry dead causes suppressed
--        completed cancelled lapses void_entries held key_pieces key_spans rings* blocked rechecked active_keys
--        ended_keys key_policies key_rates key_heads ready* token idle_hint bodies*
-- ARGV   now queues buckets
-- Reply  {0} made or there already; a refusal; {BUSY} when keys of something
--        else are in the way
-- @include open
-- @include guard

local q = open()
if not q.refused then return {0} end
if q.refused[1] ~= ABSENT then return q.refused end
if redis.call('EXISTS', unpack(KEYS)) > 0 then return {BUSY} end

-- Buckets of bodies need no guard, since nearly all bodies are longer than a guard.
redis.call('HSET', q.record, 'v', LAYOUT, 'B', q.buckets)
redis.call('SET', q.plain, 0)
for _, hash in ipairs({q.leases, q.heads, q.lease_counts, q.workers, q.key_pieces, q.key_spans}) do redis.call('HSET', hash, '', GUARD) end
redis.call('ZADD', q.lease_ends, '+inf', GUARD)
return {0}
