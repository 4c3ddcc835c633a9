-- @include bodies

local room = 8388608 -- bytes of bodies and heads that the call may still read

-- fit returns how many of some records can be read before the room is used up: at least one, if there is any
-- room. In each name, the ID begins at byte from.
local function fit(q, names, from)
  for i, name in ipairs(names) do
    if room <= 0 then return i - 1 end
    local id = from and string.sub(name, from) or name
    room = room - redis.call('HSTRLEN', q.bodies[bucket(q, id)], id) - redis.call('HSTRLEN', q.heads, id)
  end
  return #names
end
