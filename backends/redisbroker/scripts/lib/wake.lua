-- wake leaves one token for a claim that waits. Paused queues wake nobody.
local function wake(q)
  if not q.paused and redis.call('LLEN', q.t) == 0 then redis.call('LPUSH', q.t, '1') end
end
