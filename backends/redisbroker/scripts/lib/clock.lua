-- now is the time rounded down, to compare with; up is it rounded up, to store.
local now, up
if args.now == '0' then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
  up = now
else
  -- The fraction is read as text: a number of so many digits may have no room for it.
  now = tonumber(string.match(args.now, '^%-?%d+'))
  up = string.find(args.now, '.', 1, true) and now + 1 or now
end

-- int writes a number for a command or a stored form: Lua's own conversion
-- turns sixteen digits into an exponent.
local function int(n) return string.format('%.0f', n) end
