-- watched reports whether a watcher listens for events. It reads the store's clock, since a request may have
-- another time.
local function watched(watch)
  if not watch then return false end
  local t = redis.call('TIME')
  return tonumber(watch) > t[1] * 1000000 + t[2]
end

-- publish sends the new states of jobs to watchers, in lines of state and ID. If the user may not publish to
-- the channel, it sends nothing.
local function publish(watch, channel, events)
  if #events > 0 and watched(watch) then redis.pcall('PUBLISH', channel, table.concat(events, '\n')) end
end
