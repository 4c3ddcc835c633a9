-- drop: remove a queue that has no jobs and no live workers.
--
-- KEYS   record plain leases heads lease_ends worker_infos lease_counts workers ended_workers
--        unreclaimed cancels unique remembered by_key scheduled retry dead suppressed completed
--        cancelled lapses void_turns held line spans rings* blocked thawing active_keys ended_keys
--        key_policies key_rates key_heads ready* token quiet bodies*
-- ARGV   now queues buckets
-- Reply  {0, now, 1 removed or 0 in use}; a refusal
-- @include clock
-- @include open

local q = open()
if q.refused then return q.refused end
for _, id in ipairs(redis.call('ZRANGE', q.lease_ends, '(' .. int(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1)) do
  if string.byte(id) ~= 0 then return {0, now, 0} end
end
for i = 1, q.buckets do
  if redis.call('HLEN', q.bodies[i]) > 1 then return {0, now, 0} end
end
redis.call('UNLINK', unpack(KEYS))
return {0, now, 1}
