-- A ready entry stands for a pending job in a ready list: for a fresh job its ID, for one in a later
-- epoch byte 1, epoch, ":" and ID. No ID has a control character. void_entries counts entries of
-- all lists, with the priority before them.
local function ready_entry(epoch, id)
  if epoch == '0' then return id end
  return '\1' .. epoch .. ':' .. id
end

local function id_of_ready(e)
  if string.byte(e) ~= 1 then return e end
  return string.sub(e, string.find(e, ':', 2, true) + 1)
end
