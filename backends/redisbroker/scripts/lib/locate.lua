-- @include head
-- @include index
-- @include ready_entry
-- @include entry

-- priority_of returns the priority in an index. An impossible priority, in a malformed body, counts as normal.
local function priority_of(index)
  local priority = (index[PRIORITY] or 4) / 2
  if priority < 1 or priority > 4 or priority % 1 ~= 0 then priority = 2 end
  return int(priority)
end

-- held reports whether a lease has no worker, that is, whether its job is held.
local function held(lease) return string.byte(lease, string.find(lease, ':', 2, true) + 1) == 10 end

-- locate returns the state of an existing job; if that is pending, scheduled or retry, also its entry in the
-- structure of that state; and when the job is due. For a pending job with a key it returns the priority
-- instead of an entry.
local function locate(q, id, index, head, lease)
  if lease then return held(lease) and WAITING or ACTIVE end
  local epoch, state = '0', nil
  if head then epoch, state = string.match(head, '^(%d+),(%d+),') end
  state = tonumber(state or 0)
  if final(state) then return state end
  local f = parse_index(index)
  local e = entry(priority_of(f), epoch or '0', id, f[KEY])
  local at = redis.call('ZSCORE', q.scheduled, e)
  if at then return SCHEDULED, e, tonumber(at) end
  at = redis.call('ZSCORE', q.retry, e)
  if at then return RETRY, e, tonumber(at) end
  return PENDING, f[KEY] and priority_of(f) or priority_of(f) .. ready_entry(epoch or '0', id)
end
