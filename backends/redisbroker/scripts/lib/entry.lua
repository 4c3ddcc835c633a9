-- An entry of a scheduled or a retry job is priority, epoch, ":" and ID and, if the job has a
-- key, "\n" and the key. So a claim can make the job pending without reading it.
local function entry(priority, epoch, id, key)
  local text = priority .. epoch .. ':' .. id
  return key and text .. '\n' .. key or text
end

-- id_of_entry returns the ID in an entry, and the key, if any.
local function id_of_entry(e)
  local colon, line = string.find(e, ':', 3, true), string.find(e, '\n', 3, true)
  return string.sub(e, colon + 1, line and line - 1), line and string.sub(e, line + 1)
end
