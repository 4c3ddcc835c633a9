-- publish tells watchers, while there are some, which jobs reached which
-- state: "S", then lines of state and ID. Whether somebody watches is judged
-- by the store's clock, whatever the request's. Without permission for the
-- channel nobody is told.
local function publish(watch, channel, events)
  if #events == 0 or not watch then return end
  local t = redis.call('TIME')
  if tonumber(watch) > t[1] * 1000000 + t[2] then
    redis.pcall('PUBLISH', channel, 'S' .. table.concat(events, '\n'))
  end
end
