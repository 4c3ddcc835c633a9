-- due_of reads a time to run at: "n" for now, "d" and a delay, or "a" and a time. It returns nil for now.
local function due_of(when)
  local kind, number = string.sub(when, 1, 1), tonumber(string.sub(when, 2))
  if kind == 'd' then return up + number elseif kind == 'a' then return number end
end

-- options_of reads the options of a new job, as enqueue.lua describes them: priority, due time or nil, mode and time of its unique
-- key, the unique key, and its key.
local function options_of(options)
  local priority, when, mode, ttl, unique, key = string.match(options, '^(%d)(%a%d*)\n(%d)(%d*)\n([^\n]*)\n(.*)$')
  return priority, due_of(when), mode, tonumber(ttl), unique, key
end

-- end_of returns the end of a time that begins now, as unique keys store it: 0 for none.
local function end_of(ttl) return ttl > 0 and int(up + ttl) or '0' end
