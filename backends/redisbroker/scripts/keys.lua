-- keys: describe keys of a queue: the named ones, or a page of all.
--
-- KEYS   record by_key leases held key_pieces key_spans active_keys key_policies key_rates key_heads
--        bodies*
-- ARGV   now queues buckets most cursor names*   (cursor: the last key of the page before)
-- Reply  {0, now, cursor, then per key: its name, pending, active and all jobs that have not ended
--        and do not run, creation time of the next, 8 bytes or empty, why none may start, until when or -1,
--        its head, and the numbers of its own policy}
-- @include clock
-- @include open
-- @include read
-- @include room
-- @include seek

local q, m = open('flow')
if q.refused then return q.refused end
read_limits(q, m.flow)
local most, names, behind = tonumber(args.most), {unpack(ARGV, first.names)}, ''

-- next_key returns the first key after another one that has jobs or a policy.
local function next_key(after)
  local from = after == '' and '-' or '(' .. after .. '\1'
  local found = redis.call('ZRANGE', q.by_key, from, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
  local active = redis.call('ZRANGE', q.active_keys, from, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
  if active and (not found or before(active, found)) then found = active end
  return found and string.sub(found, 1, string.find(found, '\0', 1, true) - 1)
end
if #names == 0 then
  local at = next_key(args.cursor)
  while at and #names < most do
    names[#names + 1] = at
    at = next_key(at)
  end
  if at then behind = names[#names] end
end

local reply = {0, now, behind}
if #names == 0 then return reply end
local own, texts = own_rules(q, names), {}
if q.rules and q.rules.own then texts = redis.call('HMGET', q.key_policies, unpack(names)) end
for i, key in ipairs(names) do
  local active, created = count_of(q.active_keys, key), ''
  local may = key_room(q, key, own[i])
  local pending, sum = pending_of(q, key)
  local next_one = may.ready and may.head
  for p = 1, 4 do
    if not next_one and pending[p] > 0 then next_one = id_of_ready(first_ready(q, key, p) or '') end
  end
  if next_one then created = string.sub(bodies(q, {next_one})[1] or '', 1, 8) end
  for _, v in ipairs({key, sum, active, sum + count_of(q.by_key, key), created,
    may.why or 0, may.till or -1, may.head or '', texts[i] or ''}) do
    reply[#reply + 1] = v
  end
end
return reply
