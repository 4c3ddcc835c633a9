-- @include free
-- @include follow

-- unhold frees the unique key that a job's index names, if the job holds it, and
-- gives it to the job behind.
local function unhold(q, f, id)
  local key, next = free(q, f, id)
  if next then follow(q, key, id, next) end
end
