-- from_key and to_key bound what a set in lexical order has of a key.
local function from_key(key) return '[' .. key .. '\0' end
local function to_key(key) return '(' .. key .. '\1' end

-- count_of counts the members that a set has of a key; the key itself, which by_key has
-- for one with a policy, is none.
local function count_of(set, key) return redis.call('ZLEXCOUNT', set, '(' .. key .. '\0', to_key(key)) end
