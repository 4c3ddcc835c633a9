-- watch: make settles publish events of a queue for some time, by the store's clock, since watchers listen in
-- real time.
--
-- KEYS   record
-- ARGV   now queues buckets span   (now: always 0; span: for how long, in µs)
-- Reply  {0, now}; a refusal
-- @include clock
-- @include open

local q, m = open('watch')
if q.refused then return q.refused end
local till = now + tonumber(args.span)
if till > tonumber(m.watch or 0) then
  redis.call('HDEL', q.record, '') -- a full server lets a script go on that removed something
  redis.call('HSET', q.record, 'watch', int(till))
end
return {0, now}
