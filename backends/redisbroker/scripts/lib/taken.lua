-- holder_of reads the stored value of a unique key. It returns the ID of the holder, the mode, and the
-- ID of the job behind the holder or ''; that job may have ended. It returns nil for a free key.
local function holder_of(held)
  if not held then return nil end
  local mode, till, holder, next = string.match(held, '^(%d)(%d+):([^\n]*)\n?(.*)$')
  till = tonumber(till)
  if till == 0 or till > now then return holder, mode, next end
end

-- waits_behind returns which state the job next, which waits behind the job id, will have, and its due time; nil
-- if it does not wait there.
local function waits_behind(q, next, id)
  local from, due, holder = string.match(redis.call('HGET', q.held, next) or '', '^(%d)(%d*):(.*)$')
  if holder == '@behind:' .. id then return tonumber(from), tonumber(due) end
end
