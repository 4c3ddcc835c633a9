-- The ready entry of a fresh job is its ID. The ready entry of a job in a later epoch is byte 1, epoch, ":" and
-- ID; no ID has a control character. void_entries has void entries by priority and ready entry.
local function ready_entry(epoch, id)
  if epoch == '0' then return id end
  return '\1' .. epoch .. ':' .. id
end

local function id_of_ready(e)
  if string.byte(e) ~= 1 then return e end
  return string.sub(e, string.find(e, ':', 2, true) + 1)
end
