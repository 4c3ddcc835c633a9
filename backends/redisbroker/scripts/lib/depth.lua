-- @include ended

-- room_of returns how many more pending, scheduled and waiting jobs a depth limit allows; nil for no limit.
local function room_of(q, limit, void, keyed)
  if limit == 0 then return nil end
  local n = without_guard(q.scheduled) + redis.call('HLEN', q.held) + tonumber(keyed or 0) - tonumber(void or 0)
  for p = 1, 4 do n = n + redis.call('LLEN', q.ready[p]) end
  return limit - n
end

-- depth_of_key counts the pending, scheduled, waiting and retry jobs of a key.
local depths, most_of = {}, {}
local function depth_of_key(q, key)
  if not depths[key] then depths[key] = select(2, pending_of(q, key)) + count_of(q.by_key, key) end
  return depths[key]
end

-- one_more counts an accepted job of a key.
local function one_more(key)
  if depths[key] then depths[key] = depths[key] + 1 end
end

-- too_much returns why a queue whose jobs have so many bytes refuses a job of a key: 5 for the bytes, 6 for
-- the key's depth. It also returns the amount, a slash, and the limit. It returns nil if no limit is reached.
local function too_much(q, bytes, key)
  local r = q.rules
  if not r then return nil end
  if r.max_bytes > 0 and bytes >= r.max_bytes then return 5, int(bytes) .. '/' .. int(r.max_bytes) end
  if key == '' then return nil end
  local most = most_of[key]
  if not most then
    most = rule_of(q, own_rules(q, {key})[1], 'max_depth')
    most_of[key] = most
  end
  if most > 0 and depth_of_key(q, key) >= most then return 6, int(depth_of_key(q, key)) .. '/' .. int(most) end
end
