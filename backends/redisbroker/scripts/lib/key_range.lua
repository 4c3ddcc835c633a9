-- to_key returns the end of a key's members in a set in lexical order.
local function to_key(key) return '(' .. key .. '\1' end

-- count_of counts a key's members in a set, without the member for the key itself that by_key has
-- when the key has a policy or pending jobs.
local function count_of(set, key) return redis.call('ZLEXCOUNT', set, '(' .. key .. '\0', to_key(key)) end

-- before compares as the server orders members: by bytes, whatever its locale.
local function before(a, b)
  local i = 1
  while string.byte(a, i) and string.byte(a, i) == string.byte(b, i) do i = i + 1 end
  return (string.byte(a, i) or -1) < (string.byte(b, i) or -1)
end
