-- to_key returns the upper bound of a key's members in a set in lexical order.
local function to_key(key) return '(' .. key .. '\1' end

-- count_of counts a key's members in a set. It does not count the member that by_key has for the key itself
-- while the key has a policy or pending jobs.
local function count_of(set, key) return redis.call('ZLEXCOUNT', set, '(' .. key .. '\0', to_key(key)) end

-- before reports whether a comes before b in the server's order of members: by bytes, in any locale.
local function before(a, b)
  local i = 1
  while string.byte(a, i) and string.byte(a, i) == string.byte(b, i) do i = i + 1 end
  return (string.byte(a, i) or -1) < (string.byte(b, i) or -1)
end
