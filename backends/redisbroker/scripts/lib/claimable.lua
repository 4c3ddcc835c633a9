-- @include due
-- @include rules

-- This file decides what can be claimed from a queue now, and in which order: the pause, limits, due
-- times, priorities and their rounds. Claims have no other rules, so add a new rule here, with the
-- fields of the record that it needs.

-- claimable reports whether jobs of a queue can be claimed at all.
local function claimable(q) return not q.refused and not q.paused and q.allowed > 0 end

-- read_rules stores in q what the record says about claims, and the next due time. q.allowed is how many
-- jobs the queue's limits let a claim lease; if that is none, and time alone decides, q.opens is when
-- they allow one.
local function read_rules(q, m)
  q.paused = m.paused == '1'
  q.round, q.turn = tonumber(m.priority_round or 0), tonumber(m.turn or 0)
  read_limits(q, m.flow)
  q.allowed = math.huge
  local r = q.rules
  if r and not (q.refused or q.paused) then
    if r.max_active > 0 then q.allowed = math.max(0, r.max_active - active_jobs(q)) end
    if r.rate > 0 and q.allowed > 0 then
      local free
      q.bucket = read_bucket(redis.call('HGET', q.record, 'bucket'))
      free, q.opens = bucket_free(q.bucket, r.rate, r.rate_per, r.rate_burst)
      q.allowed = math.min(q.allowed, free)
    end
  end
  if claimable(q) or q.opens then q.due = next_due(q) end
end

-- any_due reports whether a scheduled or a retry job is due.
local function any_due(q) return q.due and q.due <= now end

-- any_left reports whether a job can be claimed now, given how many jobs are ready.
local function any_left(q, ready) return not q.paused and q.allowed > 0 and (ready > 0 or any_due(q)) end

-- take_urgent leases the most urgent jobs first.
local function take_urgent(q, want, jobs, take, full)
  local taken = 0
  for p = 1, 4 do
    if taken >= want or full() then break end
    taken = taken + take(q, p, want - taken, jobs)
  end
  return taken
end

-- take_in_rounds leases jobs whose priorities take turns: the last three of a round are for priorities
-- 2, 3 and 4 (broker.Policy.Turn). If no such job is pending, and at all other times, the most urgent
-- job is leased.
local function take_in_rounds(q, want, jobs, take, full)
  while want > 0 do
    local at, taken = q.turn % q.round, 0
    local low = at - (q.round - 3) -- 0, 1, 2: the turn of priority 2, 3, 4
    local n = math.min(want, low < 0 and -low or 1)
    if low >= 0 then taken = take(q, low + 2, 1, jobs) end
    if taken == 0 then taken = take_urgent(q, n, jobs, take, full) end
    if taken == 0 then return end
    q.turn, want = q.turn + taken, want - taken
  end
end

-- take_next leases up to want jobs, in the order of claims. The function take leases jobs of a
-- priority, adds them to jobs and returns how many; full reports whether the call is at a bound.
local function take_next(q, want, jobs, take, full)
  if q.round > 0 then take_in_rounds(q, want, jobs, take, full) else take_urgent(q, want, jobs, take, full) end
end

-- count_claimed counts n leased jobs for rounds and rates. If the rate lets no more start now, q.opens
-- is when it does.
local function count_claimed(q, n)
  if n == 0 then return end
  if q.round > 0 then redis.call('HINCRBY', q.record, 'turn', n) end
  q.allowed = q.allowed - n
  if q.bucket then
    local r = q.rules
    q.bucket[2] = q.bucket[2] + n
    redis.call('HSET', q.record, 'bucket', bucket_text(q.bucket))
    q.opens = select(2, bucket_free(q.bucket, r.rate, r.rate_per, r.rate_burst))
  end
end
