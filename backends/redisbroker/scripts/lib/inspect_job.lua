-- @include stamp
-- @include locate
-- @include seek
-- @include bodies

local HOME = {[COMPLETED] = 'completed', [DEAD] = 'dead', [CANCELLED] = 'cancelled'}
local CALLED = {leases = 'the leases', ready = 'the ready jobs', scheduled = 'the scheduled jobs', retry = 'the retries',
  dead = 'the dead jobs', completed = 'the completed jobs', cancelled = 'the cancelled jobs'}

-- inspect_job returns which structures, apart from the ready lists, have a job, and which one is its home. If
-- the head says that the job has ended, the home is the structure of that state. Otherwise it is the first
-- of these that has the job: the leases, a set of due times. Otherwise it is a ready list.
local function inspect_job(q, id, body, head, lease)
  local s = {index = parse_index((index_of(body))), lease = lease}
  local epoch, state, finished, deliveries
  if head then epoch, state, finished, deliveries = string.match(head, '^(%d+),(%d+),(%d+),(%d+),') end
  s.epoch, s.state = tonumber(epoch or 0), tonumber(state or 0)
  s.finished, s.deliveries = tonumber(finished or 0), tonumber(deliveries or 0)
  s.priority = tonumber(priority_of(s.index))
  s.key = s.index[KEY]
  s.entry, s.ready_entry = entry(int(s.priority), int(s.epoch), id, s.key), ready_entry(int(s.epoch), id)
  s.scheduled, s.retry = redis.call('ZSCORE', q.scheduled, s.entry), redis.call('ZSCORE', q.retry, s.entry)
  s.dead, s.completed = redis.call('ZSCORE', q.dead, id), redis.call('ZSCORE', q.completed, id)
  s.cancelled = redis.call('ZSCORE', q.cancelled, id)
  s.home = HOME[s.state] or lease and 'leases' or s.scheduled and 'scheduled' or s.retry and 'retry' or 'ready'
  return s
end

local function body_of(q, id) return redis.call('HGET', q.bodies[bucket(q, id)], id) end

-- look calls inspect_job for a job of which only the body was read.
local function look(q, id, body)
  return inspect_job(q, id, body, redis.call('HGET', q.heads, id), redis.call('HGET', q.leases, id))
end

local LOOK = 100000 -- how many entries of lists a call searches at most, since a search blocks the server
local looked = 0    -- how many entries this call has searched

-- is_ready reports whether a job has a ready entry; it returns nil if the search would take too long.
local function is_ready(q, s)
  if s.key then return find_ready(q, s.key, int(s.priority), s.ready_entry) ~= nil end
  local n = redis.call('LLEN', q.ready[s.priority])
  looked = looked + n
  if n > 2 * LOOK or looked > 4 * LOOK then return nil end
  return redis.call('LPOS', q.ready[s.priority], s.ready_entry) and true or false
end

local LONG = 'the ready list is too long to search'
