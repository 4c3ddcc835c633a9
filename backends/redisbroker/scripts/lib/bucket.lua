-- A bucket counts the starts for a rate in whole numbers, as broker.Bucket does: {at, used}. It is stored as
-- the two numbers with a space between them.

-- whole divides and rounds down. Both numbers must be below 2^53.
local function whole(n, by) return (n - n % by) / by end

local function read_bucket(text)
  if not text then return {0, 0} end
  local at, used = string.match(text, '^(%d+) (%-?%d+)$')
  return {tonumber(at or 0), tonumber(used or 0)}
end

local function bucket_text(b) return int(b[1]) .. ' ' .. int(b[2]) end

-- bucket_free returns how many jobs may start now, by a rate of jobs per time and a burst. If none may, it
-- also returns when the next one may.
local function bucket_free(b, jobs, per, burst)
  local saved = burst + 1
  if b[1] == 0 and b[2] == 0 then -- nothing has started yet
    b[1], b[2] = now, -saved
    return saved
  end
  local at, used = b[1], math.min(b[2], jobs + saved)
  if used >= jobs then
    local n = whole(used, jobs)
    at, used = at + n * per, used - n * jobs
  end
  local full = whole((saved + math.max(used, -saved)) * per, jobs) + 1
  if now - at >= full + per then
    at, used = now, -saved
  elseif at - now > per then
    at, used = now, math.min(used, -1)
  end
  -- Split the time, since its product with jobs may exceed 2^53.
  local past = math.max(now - at, 0)
  local free = whole(past, per) * jobs + whole(past % per * jobs, per) - used
  if free >= saved then at, used, free = now, -saved, saved end
  b[1], b[2] = at, used
  if free > 0 then return free end
  return 0, at + whole((used + 1) * per + jobs - 1, jobs)
end
