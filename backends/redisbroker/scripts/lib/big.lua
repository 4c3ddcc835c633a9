-- biggest returns an upper bound of the sizes of a queue's bodies and heads, in bytes. Sizes below
-- 4 KiB are not stored: an answer has room for enough of them.
local function biggest(stored) return math.max(4096, tonumber(stored or 0)) end
