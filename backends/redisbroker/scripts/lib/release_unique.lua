-- @include free_unique
-- @include start_behind

-- release_unique frees the unique key that a job's index names, if the job holds it, and gives it
-- to the job behind, if any.
local function release_unique(q, f, id)
  local key, next = free_unique(q, f, id)
  if next then start_behind(q, key, id, next) end
end
