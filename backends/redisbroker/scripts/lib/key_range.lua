-- to_key is the end of what a set in lexical order has of a key.
local function to_key(key) return '(' .. key .. '\1' end

-- count_of counts the members that a set has of a key; the key itself, which by_key has
-- for one with a policy, is none.
local function count_of(set, key) return redis.call('ZLEXCOUNT', set, '(' .. key .. '\0', to_key(key)) end

-- before compares as the server orders members: by bytes, whatever its locale.
local function before(a, b)
  local i = 1
  while string.byte(a, i) and string.byte(a, i) == string.byte(b, i) do i = i + 1 end
  return (string.byte(a, i) or -1) < (string.byte(b, i) or -1)
end
