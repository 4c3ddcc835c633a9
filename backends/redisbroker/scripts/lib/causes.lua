-- @include index

-- Fields of a body and of a head's tail (package broker). The type, a text, is the first field of a body of version 1. The reason
-- of a death, a number of one byte, is the first field of a tail. The last failure in the tail counts; it has a message.
local TYPE_FIELD, REASON_TAG, FAILURE_FIELD, MESSAGE_FIELD = 1, 4, 6, 5

-- timed_cause writes a time as a text, so that texts sort like times.
local function timed_cause(at) return string.format('%016.0f', tonumber(at)) end

-- causes returns what q.causes must have for a dead job, as far as the job can be read: a member for its type and one for its
-- reason, and the job's last error, or nil, with its position in the order of errors.
local function causes(id, at, body, head)
  local position, members = timed_cause(at) .. id, {}
  if string.byte(body, 9) == 1 then
    local _, rest = index_of(body)
    local kind = fields(body, rest, #body, TYPE_FIELD)[TYPE_FIELD]
    if type(kind) == 'string' then members[1] = 't' .. kind .. '\0' .. position end
  end
  local semicolon = head and string.find(head, ';', 1, true)
  if semicolon and string.byte(head, semicolon + 1) == REASON_TAG then
    members[#members + 1] = 'r' .. string.sub(head, semicolon + 1, semicolon + 2) .. '\0' .. position
  end
  local failure = semicolon and fields(head, semicolon + 1, #head, FAILURE_FIELD)[FAILURE_FIELD]
  local message = type(failure) == 'string' and fields(failure, 1, #failure, MESSAGE_FIELD)[MESSAGE_FIELD]
  if type(message) ~= 'string' or message == '' then message = nil end
  return members, message, position
end
