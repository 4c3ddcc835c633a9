-- examine_leases: examine a page of leases, of held jobs, of requests to cancel, or of what is stored
-- about workers.
--
-- KEYS   record heads leases cancels lease_ends worker_infos lease_counts workers ended_workers
--        unreclaimed by_key scheduled retry lapses held key_pieces key_spans rings* blocked rechecked active_keys
--        key_policies key_rates key_heads ready* token group_ends group_counts group_news bodies*
-- ARGV   now queues buckets part cursor most repair
--        (part: "leases", "held", "cancels", "workers", "noted", "infos", "ended"; most: records;
--        repair: 1 to repair)
-- Reply  {0, now, cursor, records, {}, then per finding: code, ID, what is wrong,
--        1 if repaired, why not}
-- @include clock
-- @include open
-- @include examine
-- @include worker
-- @include head
-- @include locate
-- @include bodies
-- @include append_ready
-- @include wake

local MINUTE = 60000000

local q, m = open('paused', 'flow')
if q.refused then return q.refused end
q.paused = m.paused == '1'
read_limits(q, m.flow)

local function known(worker) return redis.call('ZSCORE', q.lease_ends, worker) or redis.call('HEXISTS', q.unreclaimed, worker) == 1 end

-- let_go removes a job from the active jobs of its key. The index of the lease or of the body names the key.
local function let_go(id, lease, body)
  local index = string.match(lease, '\n(.*)$') or ''
  local key = parse_index(index)[KEY] or body and parse_index((index_of(body)))[KEY]
  if not key then return end
  redis.call('ZREM', q.active_keys, key .. '\0' .. id)
  if free_keys(q, {key}) then wake(q) end
end

local function examine_lease(id, lease)
  local body, head = redis.call('HGET', q.bodies[bucket(q, id)], id), redis.call('HGET', q.heads, id)
  local epoch, worker = string.match(lease, '^[1-4](%d+):(.-)\n')
  local at, state = '0', '0'
  if head then at, state = string.match(head, '^(%d+),(%d+),') end
  at, state = tonumber(at or 0), tonumber(state or 0)
  local waiting = worker == '' and redis.call('HEXISTS', q.held, id) == 1
  if not epoch or worker == '' and not waiting and body then
    found('lease-malformed', id, 'its lease names no worker', function()
      redis.call('HDEL', q.cancels, id)
      redis.call('HDEL', q.leases, id)
      let_go(id, lease, body)
      if not body or final(state) then return end
      redis.call('HSET', q.heads, id, moved_head(head, at + 1, PENDING, '0', 1))
      append_ready(q, parse_index((index_of(body))), int(at + 1), id)
      wake(q)
    end)
  elseif not body then
    found('lease-without-job', id, 'worker ' .. worker .. ' has a lease of it, and it is not stored', function()
      redis.call('HDEL', q.cancels, id)
      redis.call('HDEL', q.leases, id)
      let_go(id, lease)
      if worker ~= '' and tonumber(redis.call('HGET', q.lease_counts, worker) or 0) > 0 then
        redis.call('HINCRBY', q.lease_counts, worker, -1)
      end
    end)
  elseif final(state) then
    return -- examine_jobs.lua reports that
  elseif not waiting and not known(worker) and redis.call('HEXISTS', q.workers, worker) == 0 then
    found('lease-of-unknown-worker', id, 'its worker ' .. worker .. ' is not known', function()
      end_worker(q, worker)
      redis.call('HSET', q.unreclaimed, worker, int(up))
      redis.call('HINCRBY', q.group_counts, worker, 1)
      redis.call('ZADD', q.group_ends, int(up), worker) -- so that renewals of other workers report a lapse, and a reclaim follows
      redis.call('HSET', q.lease_counts, worker, redis.call('HLEN', q.leases)) -- an upper bound, which a reclaim corrects
      redis.call('HSET', q.record, 'scan', '0')
    end)
  elseif tonumber(epoch) ~= at then
    found('lease-of-other-epoch', id, 'its lease is of epoch ' .. epoch .. ', it is at ' .. int(at), function()
      redis.call('HSET', q.heads, id, moved_head(head, tonumber(epoch), waiting and WAITING or ACTIVE, '0', 0))
    end)
  end
end

local function examine_held(id)
  local lease = redis.call('HGET', q.leases, id)
  local function remove() redis.call('HDEL', q.held, id) end
  if redis.call('HEXISTS', q.bodies[bucket(q, id)], id) == 0 then
    found('entry-without-job', id, 'it is among the held jobs and is not stored', remove)
  elseif not lease or not string.find(lease, '^%d+:\n') then
    found('job-listed-twice', id, 'it is among the held jobs and is not held', remove)
  end
end

local function examine_cancel(id, worker)
  local lease = redis.call('HGET', q.leases, id)
  local by = lease and string.match(lease, '^%d+:(.-)\n')
  if not by then
    found('cancel-without-lease', id, 'it is asked to cancel and is not active', function() redis.call('HDEL', q.cancels, id) end)
  elseif by ~= worker then
    found('cancel-without-lease', id, 'worker ' .. worker .. ' is asked to cancel it, and worker ' .. by .. ' has it', function()
      redis.call('HSET', q.cancels, id, by)
      redis.call('SADD', q.group_news, by)
    end)
  end
end

local function examine_worker(id)
  if redis.call('HEXISTS', q.ended_workers, id) == 1 then
    found('worker-alive-and-ended', id, 'it is alive, and its ID was ended', function()
      redis.call('HDEL', q.workers, id)
      if not redis.call('ZSCORE', q.lease_ends, id) then redis.call('ZADD', q.lease_ends, int(up), id) end
    end)
  elseif not redis.call('ZSCORE', q.lease_ends, id) then
    found('worker-without-time', id, 'it is alive, and its leases have no end', function()
      redis.call('ZADD', q.lease_ends, int(up + MINUTE), id)
    end)
  end
end

local keys = {leases = q.leases, held = q.held, cancels = q.cancels, workers = q.workers, noted = q.lease_counts,
  infos = q.worker_infos, ended = q.ended_workers}
local page, at = scanned(keys[part], cursor, most)
for _, field in ipairs(page) do
  local id, value = field[1], field[2]
  local gone = not known(id) and redis.call('HEXISTS', q.workers, id) == 0
  if id == '' then
    records = records - 1
  elseif part == 'leases' then
    examine_lease(id, value)
  elseif part == 'held' then
    examine_held(id)
  elseif part == 'cancels' then
    examine_cancel(id, value)
  elseif part == 'workers' then
    examine_worker(id)
  elseif part == 'noted' and gone and value == '0' then
    found('worker-leftover', id, 'its count of leases is stored, and it is gone', function() redis.call('HDEL', q.lease_counts, id) end)
  elseif part == 'infos' and gone then
    found('worker-leftover', id, 'its description is stored, and it is gone', function() redis.call('HDEL', q.worker_infos, id) end)
  elseif part == 'ended' and not redis.call('ZSCORE', q.lapses, 'w' .. id) then
    found('worker-leftover', id, 'it ended, and nothing will remove its ID', function()
      redis.call('ZADD', q.lapses, int(up + DAY), 'w' .. id)
    end)
  end
end
return answer(at)
