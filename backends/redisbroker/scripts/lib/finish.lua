-- @include forget
-- @include head

-- retention is how long a body asks that its record be kept, in µs: field 9
-- of a body of version 1 (package broker, body.go).
local function retention(body)
  local _, at = index_of(body)
  if string.byte(body, 9) ~= 1 then return 0 end
  return (fields(body, at, #body, 9)[9] or 0) / 2
end

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
  end
end
