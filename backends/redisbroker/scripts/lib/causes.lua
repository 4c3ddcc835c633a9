-- @include index

-- Fields of a body and of a head's tail (package broker): the type, a text, is the first field of a body of version 1, and the
-- reason of a death, a number of one byte, is the first of a tail. Of failures the last one counts; it has a message.
local TYPE_FIELD, REASON_TAG, FAILURE_FIELD, MESSAGE_FIELD = 1, 4, 6, 5

-- timed_cause writes a time so that texts sort as times do.
local function timed_cause(at) return string.format('%016.0f', tonumber(at)) end

-- causes returns the members of q.causes for a dead job, as far as they can be read: one for its type, one for its reason,
-- and one with its last error, so that a search reads one set in order.
local function causes(id, at, body, head)
  local behind, members = '\0' .. timed_cause(at) .. id, {}
  if string.byte(body, 9) == 1 then
    local _, rest = index_of(body)
    local kind = fields(body, rest, #body, TYPE_FIELD)[TYPE_FIELD]
    if type(kind) == 'string' then members[1] = 't' .. kind .. behind end
  end
  local semicolon = head and string.find(head, ';', 1, true)
  if semicolon and string.byte(head, semicolon + 1) == REASON_TAG then
    members[#members + 1] = 'r' .. string.sub(head, semicolon + 1, semicolon + 2) .. behind
  end
  local failure = semicolon and fields(head, semicolon + 1, #head, FAILURE_FIELD)[FAILURE_FIELD]
  local message = type(failure) == 'string' and fields(failure, 1, #failure, MESSAGE_FIELD)[MESSAGE_FIELD]
  if type(message) == 'string' and message ~= '' then members[#members + 1] = 'm' .. behind .. '\0' .. message end
  return members
end
