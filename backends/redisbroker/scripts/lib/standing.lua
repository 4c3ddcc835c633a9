-- @include stamp
-- @include place
-- @include seek
-- @include read

local HOME = {[COMPLETED] = 'completed', [DEAD] = 'dead', [CANCELLED] = 'cancelled'}
local CALLED = {leases = 'the leases', ready = 'line', scheduled = 'the scheduled jobs', retry = 'the retries',
  dead = 'the dead jobs', completed = 'the completed jobs', cancelled = 'the cancelled jobs'}

-- standing says where a job is, in every structure but the ready lists, and
-- which place is its home: that of the state that its head ended in, else its
-- lease, else a time, else line.
local function standing(q, id, body, head, lease)
  local s = {index = parse_index((index_of(body))), lease = lease}
  local epoch, state, finished, deliveries
  if head then epoch, state, finished, deliveries = string.match(head, '^(%d+),(%d+),(%d+),(%d+),') end
  s.epoch, s.state = tonumber(epoch or 0), tonumber(state or 0)
  s.finished, s.deliveries = tonumber(finished or 0), tonumber(deliveries or 0)
  s.priority = tonumber(priority_of(s.index))
  s.key = s.index[KEY]
  s.entry, s.turn = entry(int(s.priority), int(s.epoch), id, s.key), turn(int(s.epoch), id)
  s.scheduled, s.retry = redis.call('ZSCORE', q.scheduled, s.entry), redis.call('ZSCORE', q.retry, s.entry)
  s.dead, s.completed = redis.call('ZSCORE', q.dead, id), redis.call('ZSCORE', q.completed, id)
  s.cancelled = redis.call('ZSCORE', q.cancelled, id)
  s.home = HOME[s.state] or lease and 'leases' or s.scheduled and 'scheduled' or s.retry and 'retry' or 'ready'
  return s
end

local LOOK = 100000 -- turns looked at in a list
local looked = 0    -- and in all, in this step

-- in_line says whether a job has its turn in line: nil when it would
-- take too long to say.
local function in_line(q, s)
  if s.key then return find_turn(q, s.key, int(s.priority), s.turn) ~= nil end
  local n = redis.call('LLEN', q.ready[s.priority])
  looked = looked + n
  if n > 2 * LOOK or looked > 4 * LOOK then return nil end
  return redis.call('LPOS', q.ready[s.priority], s.turn) and true or false
end

local LONG = 'the line is too long to look through'
