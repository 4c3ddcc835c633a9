-- now is the time rounded down, for comparisons; up is the time rounded up, to store.
local now, up
if args.now == '0' then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
  up = now
else
  -- Read the fraction as text: a number may not have enough digits for it.
  now = tonumber(string.match(args.now, '^%-?%d+'))
  up = string.find(args.now, '.', 1, true) and now + 1 or now
end

-- int formats a whole number for a command or for storage. Lua's own conversion writes numbers of sixteen
-- digits with an exponent, and takes three times as long.
local function int(n) return string.format('%d', n) end
