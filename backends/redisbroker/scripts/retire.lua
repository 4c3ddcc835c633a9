-- retire: end a worker's ID and release its jobs to the front. A call looks at a part of the active jobs; the
-- caller repeats it with the cursor of the answer until the cursor is 0. Meanwhile the worker's leases hold until
-- their time is over: if a retire stopped early, a reclaim then takes over the rest.
--
-- KEYS   record lease_ends worker_infos lease_counts workers ended_workers leases heads cancels
--        unique by_key remembered scheduled retry cancelled lapses held key_pieces key_spans rings*
--        blocked rechecked active_keys ended_keys key_policies key_rates key_heads ready* token group_ends group_counts
--        group_news bodies*
-- ARGV   now queues buckets worker cursor channel   (channel: for events)
-- Reply  {0, now, cursor, then per released job: id, new epoch}; a refusal
-- @include clock
-- @include open
-- @include push_ready
-- @include worker
-- @include finish
-- @include read
-- @include event
-- @include leave_group

local q, m = open('paused', 'watch', 'keep_completed', 'duplicate_span', 'flow')
if q.refused then return q.refused end
q.paused = m.paused == '1'
q.retain, q.span = tonumber(m.keep_completed or 0), duplicate_span(m.duplicate_span)
read_limits(q, m.flow)
local worker = args.worker

if redis.call('HDEL', q.workers, worker) == 1 then redis.call('SADD', q.group_news, worker) end
end_worker(q, worker)
local held = tonumber(redis.call('HGET', q.lease_counts, worker) or 0)
local cursor, mine = '0', {}
if held > 0 then
  local scan = redis.call('HSCAN', q.leases, args.cursor, 'COUNT', 1000)
  cursor = scan[1]
  for i = 1, #scan[2], 2 do
    if scan[2][i] ~= '' then
      local priority, epoch, by, index = holder(scan[2][i + 1])
      if by == worker then mine[#mine + 1] = {scan[2][i], priority, epoch + 1, index} end
    end
  end
end

local reply, events = {0, now, cursor}, {}
if #mine > 0 then
  table.sort(mine, function(a, b) return a[1] < b[1] end) -- IDs rise with time, so the oldest job is claimed first
  local ids = {}
  for i, job in ipairs(mine) do ids[i] = job[1] end
  local known, asked, stored = redis.call('HMGET', q.heads, unpack(ids)), {}, {}
  if redis.call('HLEN', q.cancels) > 0 then
    asked = redis.call('HMGET', q.cancels, unpack(ids))
    stored = bodies(q, ids)
    redis.call('HDEL', q.cancels, unpack(ids))
  end
  redis.call('HDEL', q.leases, unpack(ids))
  held = redis.call('HINCRBY', q.lease_counts, worker, -#ids)
  local heads, gone, front, keyed, bytes, dropped = {}, {}, {{}, {}, {}, {}}, {}, 0, 0
  for i, job in ipairs(mine) do
    local id, priority, epoch, index = unpack(job)
    local state, f = PENDING, parse_index(index)
    if f[KEY] then end_lease(f[KEY], id) end
    if asked[i] then
      state, dropped = CANCELLED, dropped + 1
      finish(q, id, f, moved_head(known[i], epoch, state, int(up), 1),
        stored[i] and retention(stored[i]) or 0, q.cancelled, heads, gone)
    else
      heads[#heads + 1] = id
      heads[#heads + 1] = moved_head(known[i], epoch, state, '0', 1)
      bytes = bytes + redis.call('HSTRLEN', q.bodies[bucket(q, id)], id)
      if f[KEY] then
        local n = #keyed
        keyed[n + 1], keyed[n + 2], keyed[n + 3], keyed[n + 4] = f[KEY], priority, int(epoch), id
      else
        local list = front[tonumber(priority)]
        list[#list + 1] = ready_entry(int(epoch), id)
      end
      reply[#reply + 1] = id
      reply[#reply + 1] = epoch
    end
    events[i] = state .. id
  end
  remove(q, gone)
  if #heads > 0 then redis.call('HSET', q.heads, unpack(heads)) end
  if bytes > 0 then redis.call('HINCRBY', q.record, 'bytes', bytes) end
  if dropped > 0 then redis.call('HINCRBY', q.record, 'dropped', dropped) end
  release_slots(q)
  local woken = add_keyed(q, keyed, true)
  woken = write_keys(q) or woken
  woken = push_ready(q, {{}, {}, {}, {}}, front) or woken
  if woken then wake(q) end
  made_room(q, #ids)
  publish(m.watch, args.channel, events)
end
if held <= 0 or cursor == '0' then
  if redis.call('ZREM', q.lease_ends, worker) == 1 then leave_group(q, worker) end
  redis.call('HDEL', q.worker_infos, worker)
  redis.call('HDEL', q.lease_counts, worker)
  reply[3] = '0'
  -- Perhaps only this worker knows when the next job is due, or when a limit allows one: another one must look now.
  if q.rules then redis.call('HDEL', q.record, 'told') end
  if next_due(q) or q.rules then wake(q) end
end
return reply
