-- watched reports whether a watcher listens for events. It reads the store's clock, since a request
-- may have a time of its own.
local function watched(watch)
  if not watch then return false end
  local t = redis.call('TIME')
  return tonumber(watch) > t[1] * 1000000 + t[2]
end

-- publish sends watchers the states that jobs reached, in lines of state and ID. Without permission
-- for the channel it sends nothing.
local function publish(watch, channel, events)
  if #events > 0 and watched(watch) then redis.pcall('PUBLISH', channel, table.concat(events, '\n')) end
end
