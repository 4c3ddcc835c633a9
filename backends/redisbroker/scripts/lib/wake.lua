-- wake leaves one token for a claim that waits. Paused queues wake nobody.
local function wake(q)
  if not q.paused and redis.call('LLEN', q.token) == 0 then redis.call('LPUSH', q.token, '1') end
end
