-- @include head
-- @include holder
-- @include index
-- @include taken
-- @include put_job

-- start_behind gives a unique key to the job next, if next still waits behind the job id that held the key,
-- and makes next pending or scheduled (§41).
local function start_behind(q, unique, id, next)
  local state, due = waits_behind(q, next, id)
  if not state then return end
  local priority, epoch, _, index = holder(redis.call('HGET', q.leases, next))
  redis.call('HDEL', q.leases, next)
  redis.call('HDEL', q.held, next)
  redis.call('HSET', q.unique, unique, '00:' .. next)
  redis.call('HSET', q.heads, next, moved_head(redis.call('HGET', q.heads, next), epoch + 1, state, '0', 0))
  put_job(q, next, priority, epoch + 1, parse_index(index)[KEY], state == SCHEDULED and q.scheduled, due)
end
