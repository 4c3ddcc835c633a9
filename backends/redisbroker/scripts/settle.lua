-- settle: end leases of one worker, each with its outcome.
--
-- KEYS   record workers leases heads lease_counts cancels unique by_key remembered
--        scheduled retry dead causes completed cancelled lapses held key_pieces key_spans rings* blocked rechecked
--        active_keys ended_keys key_policies key_rates key_heads ready* token bodies*
-- ARGV   now queues buckets worker number offset channel waits waited runs ran spent total ids* runs*
--        (number: of the request, 0 for none; offset: how many of its items earlier calls had; channel:
--        for events; waits to ran: sums over all items for the totals; spent: for each item how long it
--        waited and how long it ran, in 8 bytes each, or nothing; total: how many items; per run of
--        items with the same outcome: how many, the outcome, and 1 if delay and tail follow for each of
--        them, or 0. An outcome is epoch ";" kind charge retention ";" deliveries ";" counts ";" counts
--        if cancelled. kind is c complete, x cancel, d dead, y retry, p pending at the back, f pending at
--        the front, k keep: the lease stays. charge is f a failure, r one after which the job runs again,
--        k a crash, e expired, n none)
-- Reply  {0, now, verdicts}: per item a digit: its new state, 3 for what was kept, or 0 for a lease that
--        was over; a refusal; {GAP} when earlier items are missing
-- @include clock
-- @include open
-- @include rules
-- @include index
-- @include remove
-- @include event
-- @include totals

local q, m = open('paused', 'watch', 'keep_completed', 'duplicate_span', 'big', 'flow')
if q.refused then return q.refused end
q.paused = m.paused == '1'
q.retain = tonumber(m.keep_completed or 0)
read_limits(q, m.flow)
local worker, number, offset = args.worker, tonumber(args.number), tonumber(args.offset)
local total = tonumber(args.total)
local first_run = first.ids + total
local ids = {unpack(ARGV, first.ids, first_run - 1)}

-- Verdicts of the same request that were given before: workers holds the worker's last number and
-- verdicts. The first skip items of this call are answered by them.
local known, before = redis.call('HGET', q.workers, worker), ''
local numbered = known and number > 0
if numbered then
  local colon = string.find(known, ':', 1, true)
  local last = tonumber(string.sub(known, 1, colon - 1))
  if number < last then return {0, now, string.rep('0', total)} end
  if number == last then before = string.sub(known, colon + 1) end
  if #before < offset then return {GAP} end
end
local skip = numbered and math.min(#before - offset, total) or 0

local leases = redis.call('HMGET', q.leases, unpack(ids))
local asked = {}
if redis.call('HLEN', q.cancels) > 0 then asked = redis.call('HMGET', q.cancels, unpack(ids)) end
local outcomes, verdicts = {}, {}

-- outcome_of reads an outcome, which many items may share. Its fence is how the lease that it ends
-- goes on behind the priority. quick is the whole lease of a job of normal priority without an index,
-- if the job completes and leaves no record.
local function outcome_of(text)
  local epoch, kind, charge, keep, rest = string.match(text, '^(%-?%d+);(%a)(%a)(%-?%d+);(.*)$')
  local o = {epoch = epoch, kind = kind, charge = charge, keep = keep, rest = rest, fence = epoch .. ':' .. worker .. '\n'}
  if kind == 'c' and keep == '0' and q.retain == 0 then o.quick = '2' .. o.fence end
  outcomes[text] = o
  return o
end

-- all_quick reports whether every item completes a job that leaves no record and has nothing to free,
-- as is mostly so.
local function all_quick()
  local count, outcome = unpack(ARGV, first_run, first_run + 1)
  local o = outcome_of(outcome)
  if skip > 0 or not o.quick or o.epoch ~= '0' or tonumber(count) < total then return false end
  local quick = o.quick
  for i = 1, total do
    if leases[i] ~= quick then return false end
  end
  return true
end

-- quick_key returns the key of a job that completes, leaves no record, and has nothing but its key to
-- free.
local ordered = q.rules and q.rules.ordered > 0
local function quick_key(o, lease)
  if not o.quick or ordered or string.find(lease, o.fence, 2, true) ~= 2 then return nil end
  local at = #o.fence + 2
  local tag, size = string.byte(lease, at, at + 1)
  if tag == 2 * KEY + 1 and size < 128 and #lease == at + 1 + size then return string.sub(lease, at + 2) end
  local f = parse_index(string.sub(lease, at))
  return not f[UNIQUE_KEY] and not f[GIVEN] and not f[KEPT] and f[KEY]
end

-- sort_out finds the items whose lease holds; if seen is given, of several for one lease the first. It
-- returns the IDs of all that end a lease; the items that need more than to be removed; the IDs of the
-- rest; those of the rest that have a head; and the jobs with keys among the rest, as members of
-- active_keys. It fills verdicts, keeps with the items that keep something and end nothing, and for
-- keeps and for items that need more outcome and extra, the index of their delay in ARGV.
local outcome, extra, keeps = {}, {}, {}
local function sort_out(seen)
  local ended, others, gone, aged, keyed, n, nk = {}, {}, {}, {}, {}, 0, 0
  keeps = {}
  local i, at = 0, first_run
  while i < total do
    local count, text, each = unpack(ARGV, at, at + 2)
    count, each, at = tonumber(count), each == '1', at + 3
    local o = outcomes[text] or outcome_of(text)
    for k = 1, count do
      i = i + 1
      if i > skip then
        local id, lease = ids[i], leases[i]
        verdicts[i - skip] = '0'
        if lease and not (seen and seen[id]) then
          local held = true
          local key = lease ~= o.quick and quick_key(o, lease)
          if key or lease == o.quick then
            n = n + 1
            gone[n], verdicts[i - skip] = id, '5'
            if o.epoch ~= '0' then aged[#aged + 1] = id end
            if key then
              nk = nk + 1
              keyed[nk] = key .. '\0' .. id
            end
          elseif string.sub(lease, 2, #o.fence + 1) == o.fence then
            outcome[i], extra[i] = o, each and at + 2 * (k - 1)
            if o.kind == 'k' then
              keeps[#keeps + 1], verdicts[i - skip], held = i, tostring(ACTIVE), false
            else
              others[#others + 1] = i
            end
          else
            held = false
          end
          if seen then seen[id] = held end
        end
      end
    end
    if each then at = at + 2 * count end
  end
  if #others == 0 then return gone, others, gone, aged, keyed end
  for k = 1, n do ended[k] = gone[k] end
  for _, k in ipairs(others) do ended[#ended + 1] = ids[k] end
  return ended, others, gone, aged, keyed
end

local ended, others, gone, aged, keyed
local ends = {} -- by ID, where something is kept: whether an item of the request ends the lease
if all_quick() then
  ended, others, gone, aged, keyed, verdicts = ids, {}, ids, {}, {}, {string.rep('5', total)}
else
  ended, others, gone, aged, keyed = sort_out()
  if #keeps > 0 then ended, others, gone, aged, keyed = sort_out(ends) end
end

-- From here on the script writes.
local counts = {}
local longest = tonumber(m.big or 0) -- the size of the largest head or body

-- end_leases removes the leases.
local function end_leases()
  if #ended == 0 then return end
  if redis.call('HDEL', q.leases, unpack(ended)) < #ended then -- a job is there twice
    verdicts = {}
    ended, others, gone, aged, keyed = sort_out({})
  end
  if next(asked) then redis.call('HDEL', q.cancels, unpack(ended)) end
  local left = redis.call('HINCRBY', q.lease_counts, worker, -#ended)
  if not known and left <= 0 then redis.call('HDEL', q.lease_counts, worker) end
end

-- settle_rest does what few calls need. Its functions are not made for the other calls, for which that would take a
-- third of the time of a single job.
local function settle_rest()
  -- @include outcomes
  q.span = duplicate_span(m.duplicate_span)
  if #keyed > 0 then end_leases_of(q, keyed) end
  if #keeps > 0 then store_kept() end
  if #others > 0 or #keyed > 0 then settle_others() end
  made_room(q, #ended)
end

-- count_ends adds what happened to the totals.
local function count_ends()
  if #ended == 0 then return end
  if #ended == total then
    counts.waits, counts.waited, counts.runs, counts.ran = args.waits, args.waited, args.runs, args.ran
  else
    count_spent(counts, args.spent, skip, verdicts)
  end
  raise(q, counts)
end

-- send_events tells watchers which jobs this call moved.
local function send_events(answer)
  if not watched(m.watch) then return end
  local events = {}
  for i = skip + 1, total do
    local state = string.sub(answer, i, i)
    if state ~= '0' and state ~= tostring(ACTIVE) then events[#events + 1] = state .. ids[i] end
  end
  publish(m.watch, args.channel, events)
end

end_leases()
counts.done = #gone -- settle_rest counts the others
if #others > 0 or #keyed > 0 or #keeps > 0 or q.rules then settle_rest() end
count_ends()
if longest > tonumber(m.big or 0) then redis.call('HSET', q.record, 'big', longest) end
remove(q, gone, aged)
local new = table.concat(verdicts)
local answer = string.sub(before, offset + 1, offset + skip) .. new
if numbered and skip < total then
  if #ended == 0 then redis.call('ZREM', q.scheduled, '') end -- a full server lets a script go on that removed something
  redis.call('HSET', q.workers, worker, int(number) .. ':' .. before .. new)
end
send_events(answer)
return {0, now, answer}
