-- @include bodies

local room = 8388608 -- bytes of bodies and heads that the call may yet read

-- fit is how many of some records, which come behind byte from of their names,
-- can be read before the room is used up; always one while there is any.
local function fit(q, names, from)
  for i, name in ipairs(names) do
    if room <= 0 then return i - 1 end
    local id = from and string.sub(name, from) or name
    room = room - redis.call('HSTRLEN', q.bodies[bucket(q, id)], id) - redis.call('HSTRLEN', q.heads, id)
  end
  return #names
end
