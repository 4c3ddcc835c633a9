-- keys: describe keys of a queue, those named or a page of all.
--
-- KEYS   record dead by_key leases held line places active_keys key_policies key_rates key_heads
--        bodies*
-- ARGV   now queues buckets most cursor names*   (cursor: the last key of the page before)
-- Reply  {0, now, cursor, then per key: its name, pending, active and all jobs that have not ended
--        and do not run, creation time of the next, 8 bytes or empty, why none may start, until when or -1,
--        its head, and the numbers of its own policy}
-- @include clock
-- @include open
-- @include read
-- @include room
-- @include turn

local q, m = open('flow')
if q.refused then return q.refused end
read_limits(q, m.flow)
local most, names, behind = tonumber(args.most), {unpack(ARGV, first.names)}, ''

-- next_key is the first key behind another that has jobs, or a policy.
local function next_key(after)
  local found = redis.call('ZRANGEBYLEX', q.by_key, after == '' and '-' or '(' .. after .. '\1', '+', 'LIMIT', 0, 1)[1]
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
  local entry = redis.call('ZRANGEBYLEX', q.line, from_key(key), to_key(key), 'LIMIT', 0, 1)[1]
  local may = key_room(q, key, own[i])
  if may.place then
    created = string.sub(bodies(q, {may.head})[1] or '', 1, 8)
  elseif entry then
    created = string.sub(bodies(q, {id_of_turn(string.sub(entry, #key + 18))})[1] or '', 1, 8)
  end
  for _, v in ipairs({key, count_of(q.line, key), active, count_of(q.by_key, key) - active, created,
    may.why or 0, may.till or -1, may.head or '', texts[i] or ''}) do
    reply[#reply + 1] = v
  end
end
return reply
