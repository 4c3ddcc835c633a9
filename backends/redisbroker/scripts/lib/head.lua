-- States, as package broker numbers them.
local PENDING, SCHEDULED, ACTIVE, RETRY, COMPLETED, DEAD, CANCELLED, WAITING = 1, 2, 3, 4, 5, 6, 7, 8

-- final reports whether a job in this state has ended.
local function final(state) return state == COMPLETED or state == DEAD or state == CANCELLED end

-- readable reports whether the numbers of a head can be read. If not, workers get the epoch, a colon and the
-- head as it is, so that they can end the job as undecodable.
local function readable(head) return head and string.find(head, '^%d+,%d+,%d+,%d+,%d+,%d+,%d+;') end

-- moved_head returns a stored head (false for a fresh job) with another epoch, state and time of the end, and
-- with more deliveries.
local function moved_head(head, epoch, state, finished, delivered)
  local from = int(epoch) .. ',' .. state .. ',' .. finished .. ','
  local n, rest
  if head then n, rest = string.match(head, '^%d+,%d+,%d+,(%d+)(,.*)$') end
  if not n then return from .. delivered .. ',0,0,0;' end
  return from .. int(tonumber(n) + delivered) .. rest
end
