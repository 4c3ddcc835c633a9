-- biggest returns an upper bound of the sizes of a queue's bodies and heads, in bytes. Sizes up to
-- 4 KiB are not stored, since an answer has room for enough jobs of that size.
local function biggest(stored) return math.max(4096, tonumber(stored or 0)) end
