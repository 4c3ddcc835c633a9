-- A turn is what stands for a job in a ready list: of a fresh job its ID, and
-- of one in a later epoch byte 1, epoch, ":" and ID. No ID has a control
-- character. In void_turns, where turns of all lists are counted, the priority stands
-- before it.
local function turn(epoch, id)
  if epoch == '0' then return id end
  return '\1' .. epoch .. ':' .. id
end

local function id_of_turn(t)
  if string.byte(t) ~= 1 then return t end
  return string.sub(t, string.find(t, ':', 2, true) + 1)
end
