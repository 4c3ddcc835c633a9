-- drop: remove a queue that has no jobs and no live workers.
--
-- KEYS   record plain leases heads lease_ends worker_infos lease_counts workers ended_workers
--        unreclaimed cancels unique remembered by_key scheduled retry dead causes suppressed completed
--        cancelled lapses void_entries held key_pieces key_spans rings* blocked rechecked active_keys ended_keys
--        key_policies key_rates key_heads ready* token idle_hint group_ends group_counts group_news bodies*
-- ARGV   now queues buckets
-- Reply  {0, now, 1 removed or 0 in use}; a refusal
-- @include clock
-- @include open
-- @include lease_end
-- @include leave_group

local q = open()
if q.refused then return q.refused end
local workers = redis.call('ZRANGE', q.lease_ends, 0, -1)
for _, id in ipairs(workers) do
  if string.byte(id) ~= 0 and lease_end(q, id) > now then return {0, now, 0} end
end
for i = 1, q.buckets do
  if redis.call('EXISTS', q.bodies[i]) == 1 then return {0, now, 0} end
end
redis.call('DEL', q.token) -- begin with a removal, so that operators can make room in a full store
for _, ids in ipairs({workers, redis.call('HKEYS', q.unreclaimed)}) do
  for _, id in ipairs(ids) do
    if redis.call('HEXISTS', q.group_counts, id) == 1 then leave_group(q, id) end
  end
end
local own = {}
for _, key in ipairs(KEYS) do
  if key ~= q.group_ends and key ~= q.group_counts and key ~= q.group_news then own[#own + 1] = key end
end
redis.call('UNLINK', unpack(own))
return {0, now, 1}
