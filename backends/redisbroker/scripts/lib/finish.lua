-- @include forget
-- @include release_unique
-- @include head
-- @include retention

-- finish ends a job that was completed or cancelled; set is q.completed or q.cancelled. The record is kept for
-- the time keep or, if keep is 0, for the queue's retention; if both are 0, it is removed. finish adds heads to
-- store to the list heads, and records to remove to the list gone.
local function finish(q, id, f, head, keep, set, heads, gone)
  if keep == 0 then keep = q.retain end
  release_unique(q, f, id)
  if keep == 0 then
    forget(q, f, id)
    gone[#gone + 1] = id
  else
    heads[#heads + 1] = id
    heads[#heads + 1] = head
    redis.call('ZADD', set, int(up), id)
    redis.call('ZADD', q.lapses, int(up + keep), 'r' .. id)
    if f[KEY] then
      unlist(q, f[KEY], id, true)
      drop_head(q, f[KEY], id)
    end
  end
end
