-- @include index

-- Fields of a body and of a head's tail (package broker): the type, a text, is the first field of a body of version 1, and the
-- reason of a death, a number of one byte, is the first of a tail.
local TYPE_FIELD, REASON_TAG = 1, 4

-- timed_cause writes a time so that texts sort as times do.
local function timed_cause(at) return string.format('%016.0f', tonumber(at)) end

-- causes returns the members of q.causes for a dead job: one for its type and one for its reason, where they can be read.
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
  return members
end
