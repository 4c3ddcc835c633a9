-- stale says of a time of creation, which the caller wrote by what it knows of
-- this clock, that it will not do: it is to come or over 10 ms ago.
local function stale(at) return at > up or up - at > 10000 end

-- stamp is the time of creation as bodies begin with it, in eight bytes.
local function stamp()
  local floor = math.floor
  local high, low = floor(up / 4294967296), up % 4294967296
  return string.char(0, floor(high / 65536), floor(high / 256) % 256, high % 256,
    floor(low / 16777216), floor(low / 65536) % 256, floor(low / 256) % 256, low % 256)
end
