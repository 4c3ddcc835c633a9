-- @include head
-- @include index

-- place says where a job is that exists: its state, its entry in the structure
-- of that state when it is pending, scheduled or retry, and when it is due.
local function place(q, id, index, head, lease)
  if lease then return ACTIVE end
  local epoch, state = '0', nil
  if head then epoch, state = string.match(head, '^(%d+),(%d+),') end
  state = tonumber(state or 0)
  if state == COMPLETED or state == DEAD or state == CANCELLED then return state end
  local priority = (parse_index(index)[PRIORITY] or 4) / 2
  local entry = int(priority) .. (epoch or '0') .. ':' .. id
  local at = redis.call('ZSCORE', q.z, entry)
  if at then return SCHEDULED, entry, tonumber(at) end
  at = redis.call('ZSCORE', q.y, entry)
  if at then return RETRY, entry, tonumber(at) end
  return PENDING, entry
end
