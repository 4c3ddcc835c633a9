-- @include place
-- @include line

-- line_up stands a pending job at the end of its line, by the index of its body.
local function line_up(q, f, epoch, id)
  local p = priority_of(f)
  if f[KEY] then
    redis.call('ZREM', q.by_key, f[KEY] .. '\0' .. id)
    join(q, {f[KEY], p, epoch, id})
  else
    redis.call('LPUSH', q.ready[tonumber(p)], turn(epoch, id))
  end
end
