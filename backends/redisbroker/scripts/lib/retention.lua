-- @include index

-- retention returns how long a job's record must be kept according to its body, in µs: field 9 of a body of
-- version 1 (package broker, body.go).
local function retention(body)
  local _, at = index_of(body)
  if string.byte(body, 9) ~= 1 then return 0 end
  return (fields(body, at, #body, 9)[9] or 0) / 2
end
