-- @include head
-- @include holder
-- @include index
-- @include taken
-- @include place_it

-- follow gives a unique key to the job that waits behind the one that held it, if
-- it still does, and puts that into the queue (§41).
local function follow(q, unique, id, next)
  local state, due = waits_behind(q, next, id)
  if not state then return end
  local priority, epoch, _, index = holder(redis.call('HGET', q.leases, next))
  redis.call('HDEL', q.leases, next)
  redis.call('HDEL', q.held, next)
  redis.call('HSET', q.unique, unique, '00:' .. next)
  redis.call('HSET', q.heads, next, moved(redis.call('HGET', q.heads, next), epoch + 1, state, '0', 0))
  place_it(q, next, priority, epoch + 1, parse_index(index)[KEY], state == SCHEDULED and q.scheduled, due)
end
