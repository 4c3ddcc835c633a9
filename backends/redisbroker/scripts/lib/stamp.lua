-- created returns the time of creation in a stored body, in µs.
local function created(body)
  local n = 0
  for i = 1, 8 do n = n * 256 + (string.byte(body, i) or 0) end
  return n
end

-- stamp returns a time of creation as the eight bytes with which a stored body begins.
local function stamp(at)
  local floor = math.floor
  local high, low = floor(at / 4294967296), at % 4294967296
  return string.char(0, floor(high / 65536), floor(high / 256) % 256, high % 256,
    floor(low / 16777216), floor(low / 65536) % 256, floor(low / 256) % 256, low % 256)
end
