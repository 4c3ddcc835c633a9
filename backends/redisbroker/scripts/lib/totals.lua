-- count_spent adds up how long the items that ended a lease waited and ran. verdicts begins after the first
-- skip items. The header of settle.lua describes spent.
local function count_spent(counts, spent, skip, verdicts)
  if spent == '' then return end
  local function number_at(at) -- eight bytes: exact up to 2^53 µs, which is 285 years
    local n = 0
    for i = at, at + 7 do n = n * 256 + string.byte(spent, i) end
    return n
  end
  local waits, waited, runs, ran = 0, 0, 0, 0
  for i, verdict in ipairs(verdicts) do
    if verdict ~= '0' and verdict ~= tostring(ACTIVE) then
      local at = 16 * (skip + i) - 15
      local wait, run = number_at(at), number_at(at + 8)
      waits, waited = waits + (wait > 0 and 1 or 0), waited + wait
      runs, ran = runs + (run > 0 and 1 or 0), ran + run
    end
  end
  counts.waits, counts.waited, counts.runs, counts.ran = waits, int(waited), runs, int(ran)
end

-- raise adds counts to the queue's totals. A total that would become too large for Redis does not change.
local function raise(q, counts)
  for name, n in pairs(counts) do
    if n ~= 0 and n ~= '0' then redis.pcall('HINCRBY', q.record, name, n) end
  end
end
