-- @include ready_entry

-- push_ready adds ready entries to the lists, by priority: those in back behind all others, those in
-- front before them. It reports whether there were any.
local function push_ready(q, back, front)
  local pushed = false
  for p = 1, 4 do
    if #back[p] > 0 then
      redis.call('LPUSH', q.ready[p], unpack(back[p]))
      pushed = true
    end
    if #front[p] > 0 then
      local reversed, n = {}, #front[p]
      for i = 1, n do reversed[i] = front[p][n + 1 - i] end
      redis.call('RPUSH', q.ready[p], unpack(reversed))
      pushed = true
    end
  end
  return pushed
end
