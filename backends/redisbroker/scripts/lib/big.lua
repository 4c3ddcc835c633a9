-- biggest is a bound of the bodies and heads of a queue, in bytes. Smaller ones
-- than 4 KiB are not even noted: an answer holds enough of them.
local function biggest(noted) return math.max(4096, tonumber(noted or 0)) end
