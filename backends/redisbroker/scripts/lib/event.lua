-- watched reports whether somebody wants to know what is settled. That is judged
-- by the store's clock, whatever the request's.
local function watched(watch)
  if not watch then return false end
  local t = redis.call('TIME')
  return tonumber(watch) > t[1] * 1000000 + t[2]
end

-- publish tells who watches which jobs reached which state, in lines of state
-- and ID. Without permission for the channel nobody is told.
local function publish(watch, channel, events)
  if #events > 0 and watched(watch) then redis.pcall('PUBLISH', channel, table.concat(events, '\n')) end
end
