-- @include forget
-- @include unhold
-- @include head
-- @include retention

-- finish ends a job that was completed or cancelled (set is for which): it keeps
-- the record for the time given or else the queue's, or lets it go. It adds to
-- the lists of heads to store and of records to remove.
local function finish(q, id, f, head, keep, set, heads, gone)
  if keep == 0 then keep = q.retain end
  unhold(q, f, id)
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
