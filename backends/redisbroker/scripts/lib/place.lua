-- @include head
-- @include index
-- @include turn
-- @include entry

-- priority_of reads a priority from an index; one that no job can have, in a
-- body that is malformed, counts as normal.
local function priority_of(index)
  local priority = (index[PRIORITY] or 4) / 2
  if priority < 1 or priority > 4 or priority % 1 ~= 0 then priority = 2 end
  return int(priority)
end

-- held reports whether a lease is nobody's, which is that of a held job.
local function held(lease) return string.byte(lease, string.find(lease, ':', 2, true) + 1) == 10 end

-- place says where a job is that exists: its state, its entry in the structure
-- of that state when it is pending, scheduled or retry, and when it is due. Of a pending
-- job with a key that is its priority.
local function place(q, id, index, head, lease)
  if lease then return held(lease) and WAITING or ACTIVE end
  local epoch, state = '0', nil
  if head then epoch, state = string.match(head, '^(%d+),(%d+),') end
  state = tonumber(state or 0)
  if state == COMPLETED or state == DEAD or state == CANCELLED then return state end
  local f = parse_index(index)
  local e = entry(priority_of(f), epoch or '0', id, f[KEY])
  local at = redis.call('ZSCORE', q.scheduled, e)
  if at then return SCHEDULED, e, tonumber(at) end
  at = redis.call('ZSCORE', q.retry, e)
  if at then return RETRY, e, tonumber(at) end
  return PENDING, f[KEY] and priority_of(f) or priority_of(f) .. turn(epoch or '0', id)
end
