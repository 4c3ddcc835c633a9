-- The key plain counts what enqueue_plain.lua stored since add_plain last added its value to the record: JOB for each job, plus
-- the bytes of all jobs. It is a single number, since each write to a field of the record would take a tenth of the time of an enqueue.
local JOB = 8589934592 -- 2^33

-- add_plain adds the counts of the key plain to the record, and sets it to 0.
local function add_plain()
  local sum = tonumber(redis.call('GET', q.plain) or 0) or 0
  if sum <= 0 then return end
  redis.call('SET', q.plain, 0)
  redis.call('HINCRBY', q.record, 'bytes', sum % JOB)
  redis.call('HINCRBY', q.record, 'enqueued', math.floor(sum / JOB))
end

-- count_plain counts stored jobs. Neither part can overflow, since a call adds less than 2^32 bytes, and numbers are exact up to 2^53.
local function count_plain(jobs, bytes)
  local sum = redis.call('INCRBY', q.plain, jobs * JOB + bytes)
  if sum >= 2 ^ 52 or sum % JOB >= 2 ^ 32 then add_plain() end
end

-- set_plain allows enqueue_plain.lua to store jobs in the queue, or forbids it.
local function set_plain(is)
  if is then
    redis.call('SET', q.plain, 0, 'NX')
  else
    add_plain()
    redis.call('DEL', q.plain)
  end
end
