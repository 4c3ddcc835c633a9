-- holder splits a lease into priority, epoch, worker and index.
local function holder(lease)
  local colon = string.find(lease, ':', 2, true)
  local line = string.find(lease, '\n', colon, true)
  return string.sub(lease, 1, 1), tonumber(string.sub(lease, 2, colon - 1)),
    string.sub(lease, colon + 1, line - 1), string.sub(lease, line + 1)
end
