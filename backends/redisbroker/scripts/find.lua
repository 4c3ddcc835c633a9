-- find: read one page of jobs, or jobs by ID.
--
-- KEYS   record heads leases cancels by_key active_keys ended_keys key_pieces key_spans scheduled retry dead causes completed cancelled
--        held ready* bodies*
-- ARGV   now queues buckets most trimmed begins text type how cursor selection*
--        (most: jobs examined; trimmed: 1 to leave payloads out; begins and text: what the tail of the head
--        begins with and contains; type: what the body contains; how to select, and the selection
--        for "ids": the IDs; "active": worker or empty; "waiting": nothing; "key": the key; for
--        the sets "scheduled", "retry", "dead", "completed", "cancelled": score from, score before, 1 for the highest first)
-- Reply  {0, now, cursor, then per job: id, state, due time or -1, worker or, for
--        a held job, its value in held, 1 if asked to cancel, body, head}. A page ends early after 8 MiB; for "ids"
--        the cursor is the number of jobs looked at.
-- @include clock
-- @include open
-- @include big
-- @include fit
-- @include read
-- @include holder
-- @include locate
-- @include pages
-- @include errors_page

local q, m = open('big')
if q.refused then return q.refused end
local n = tonumber(args.most)
local trimmed, how, cursor = args.trimmed == '1', args.how, args.cursor
local listed = ({ready = PENDING, active = ACTIVE, waiting = WAITING})[how]

-- ERRORS_COST is the measured cost of searching a block of errors, divided by the cost of reading a head.
local ERRORS_COST = 1

-- cheapest_cause returns with what members of q.causes begin for the type, the reason or the text in the query. If the query has
-- several of these, it returns the one that needs the least work; if it has none, nil.
local function cheapest_cause()
  local best, least
  local function compare(cause, cost)
    local work = cost * redis.call('ZLEXCOUNT', q.causes, '[' .. cause, '(' .. cause .. ':')
    if not least or work < least then best, least = cause, work end
  end
  if args.type ~= '' then compare('t' .. args.type .. '\0', 1) end
  if args.begins ~= '' then compare('r' .. args.begins .. '\0', 1) end
  if args.text ~= '' then compare(ERRORS, ERRORS_COST) end
  return best
end

-- The cause whose members page reads, if any.
local cause = how == 'dead' and cheapest_cause()

-- page returns the IDs of a page and the next cursor. It looks at up to most jobs. If it leaves out some of them, it also returns
-- at how many it looked, and the position of each returned ID among these.
local function page(most)
  if how == 'ids' then
    local from, some = first.selection + tonumber(cursor), {}
    for at = from, math.min(#ARGV, from + most - 1) do some[#some + 1] = ARGV[at] end
    return some, from + most <= #ARGV and int(from + most - first.selection) or ''
  elseif how == 'ready' then
    return ready(q, cursor, most)
  elseif how == 'active' then
    return unordered(q.leases, cursor, n, ARGV[first.selection], most)
  elseif how == 'waiting' then
    return unordered(q.held, cursor, n, '', most)
  elseif how == 'key' then
    return keyed(q, cursor, most, ARGV[first.selection])
  end
  local sets = {scheduled = q.scheduled, retry = q.retry, dead = q.dead, completed = q.completed, cancelled = q.cancelled}
  local after, before, newest = unpack(ARGV, first.selection)
  if cause == ERRORS then
    return errors_page(q, args.text, cursor, most, after, before, newest == '1')
  end
  if cause then return caused(q.causes, cause, cursor, most, after, before, newest == '1') end
  local some, behind = timed(sets[how], cursor, most, after, before, newest == '1')
  if how == 'scheduled' or how == 'retry' then
    for i, e in ipairs(some) do some[i] = id_of_entry(e) end
  end
  return some, behind
end

-- has_what reports whether the head of a job may match begins and text.
local function has_what(head, begins, text)
  if not head or not string.find(head, text, 1, true) then return false end -- decides most cases, at the least cost
  local semicolon = string.find(head, ';', 1, true)
  return semicolon and string.sub(head, semicolon + 1, semicolon + #begins) == begins
    and string.find(head, text, semicolon + 1, true)
end

-- chosen returns the IDs whose heads may match, and the position of each among the jobs at which page looked. It reads only as
-- many heads at once as there is room for.
local function chosen(ids, from)
  local begins, text = args.begins, args.text
  local some, places, step = {}, {}, math.max(1, math.floor(room / biggest(m.big)))
  for at = 1, #ids, step do
    local heads = redis.call('HMGET', q.heads, unpack(ids, at, math.min(#ids, at + step - 1)))
    for i, head in ipairs(heads) do
      local place = at + i - 1
      if has_what(head, begins, text) then
        some[#some + 1], places[#places + 1] = ids[place], from and from[place] or place
      end
    end
  end
  return some, places
end

local ids, behind, places
local all, upto = room, n
while true do
  local _
  ids, behind, _, places = page(upto)
  if args.begins .. args.text ~= '' then ids, places = chosen(ids, places) end
  if 2 * #ids * biggest(m.big) <= all then break end
  local few = fit(q, ids)
  room = all
  if few >= #ids then break end
  upto = places and places[few] or few -- the new page may have other jobs
end
local reply = {0, now, behind}
if #ids == 0 then return reply end

-- without_payload removes the payload from a body of version 1, in which it is the last field. With with_payload, reading a page of
-- small jobs took a third longer.
local function without_payload(body)
  if string.byte(body, 9) ~= 1 then return body end
  local _, i = index_of(body)
  while i <= #body do
    local tag, after = uvarint(body, i)
    if tag == 7 or not tag then return string.sub(body, 1, i - 1) end
    local v
    v, after = uvarint(body, after)
    if not v then return body end
    if tag % 2 == 1 then after = after + v end
    i = after
  end
  return body
end

local stored, heads = bodies(q, ids), redis.call('HMGET', q.heads, unpack(ids))
local leases, asked = redis.call('HMGET', q.leases, unpack(ids)), {}
if redis.call('HLEN', q.cancels) > 0 then asked = redis.call('HMGET', q.cancels, unpack(ids)) end
local seen = {}
for i, id in ipairs(ids) do
  local body = stored[i]
  if body and string.find(body, args.type, 1, true) and not (listed and seen[id]) then
    local state, _, at = locate(q, id, index_of(body), heads[i], leases[i])
    if not listed or state == listed then
      local worker = ''
      if state == WAITING then
        worker = redis.call('HGET', q.held, id) or ''
      elseif leases[i] then
        _, _, worker = holder(leases[i])
      end
      if trimmed then body = without_payload(body) end
      for _, v in ipairs({id, state, at or -1, worker, asked[i] and 1 or 0, body, heads[i] or ''}) do
        reply[#reply + 1] = v
      end
    end
    seen[id] = true
  end
end
return reply
