-- holder_of reads what is stored of a unique key: who holds it, in which mode, and
-- who waits behind the holder, perhaps no more, or ''. It is nil when nobody does.
local function holder_of(held)
  if not held then return nil end
  local mode, till, holder, next = string.match(held, '^(%d)(%d+):([^\n]*)\n?(.*)$')
  till = tonumber(till)
  if till == 0 or till > now then return holder, mode, next end
end

-- waits_behind says what a job is to become that waits behind another one, as
-- package broker calls it, and when; nothing if it does not wait there.
local function waits_behind(q, next, id)
  local from, due, holder = string.match(redis.call('HGET', q.held, next) or '', '^(%d)(%d*):(.*)$')
  if holder == '@behind:' .. id then return tonumber(from), tonumber(due) end
end
