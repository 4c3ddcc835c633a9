-- policy: change rules of a queue's policy, or of one of its keys, and read all of them.
--
-- KEYS   record plain scheduled retry leases held by_key key_pieces key_spans rings* blocked rechecked
--        active_keys key_policies key_rates key_heads ready* token
-- ARGV   now queues buckets key how_many rules*
--        (key: whose policy it is, empty for the queue; how_many: the number of rules; their names;
--        then per change: rule, value)
-- Reply  {0, now, the value of each rule}
-- @include clock
-- @include open
-- @include rings
-- @include wake
-- @include digest
-- @include sums

local q, m = open('void', 'keyed', 'flow')
if q.refused then return q.refused end
local key, behind = args.key, first.rules + args.how_many
local changes = #ARGV >= behind
read_limits(q, m.flow)

-- change_key sets rules of the key's own policy. The policy is stored only while a rule is set.
local function change_key()
  local stored, texts, some = redis.call('HGET', q.key_policies, key), {}, false
  local own = numbers(stored or '', OWN)
  for at = behind, #ARGV, 2 do
    local rule, number = unpack(ARGV, at, at + 1)
    own[rule] = number
  end
  for i, rule in ipairs(OWN) do
    texts[i] = int(tonumber(own[rule] or 0))
    some = some or texts[i] ~= '0'
  end
  if some then
    redis.call('HSET', q.key_policies, key, table.concat(texts, ','))
    list_keys(q, {key})
  elseif stored then
    redis.call('HDEL', q.key_policies, key)
    unlist_keys(q, {key})
  end
end

-- recheck makes claims look again at all keys that the old rules blocked.
local function recheck()
  if redis.call('EXISTS', q.blocked) == 0 then return end
  if redis.call('EXISTS', q.rechecked) == 1 then
    redis.call('HSET', q.record, 'thaw_again', 1)
  else
    redis.call('RENAME', q.blocked, q.rechecked)
  end
end

-- digested writes the rules in the form that other scripts read, and then reads them as q.rules. It returns whether a
-- rule about keys or limits has changed.
local function digested()
  local flow = digest(q)
  write_digest(q, flow)
  q.rules = nil
  read_limits(q, flow)
  return flow ~= (m.flow or false)
end

-- Begin with a removal, so that operators can pause, resume and set limits in a full store.
if changes then redis.call('HDEL', q.record, '') end
if changes and key ~= '' then
  change_key()
  digested()
elseif changes then
  redis.call('HSET', q.record, unpack(ARGV, behind))
  local before = q.rules and q.rules.ordered
  if digested() then recheck() end
  if before ~= SKIP and q.rules and q.rules.ordered == SKIP then redis.call('HINCRBY', q.record, 'skips', 1) end
  if not q.rules or q.rules.ordered == 0 then redis.call('UNLINK', q.key_heads) end
end
-- Remove the counts of a removed rate, so that a rate that is set later starts from zero.
local r = q.rules
if changes then
  if not r or r.rate == 0 then redis.call('HDEL', q.record, 'bucket') end
  if not r or r.retry_rate == 0 then redis.call('HDEL', q.record, 'retry_bucket') end
  if not r or r.key_rate == 0 and not r.own then redis.call('UNLINK', q.key_rates) end
  if key ~= '' and not key_rate(q, own_rules(q, {key})[1]) then redis.call('HDEL', q.key_rates, key) end
end
local paused, depth = unpack(redis.call('HMGET', q.record, 'paused', 'max_depth'))
q.paused = paused == '1'
if changes then
  set_plain(plain(q, tonumber(depth or 0)))
end
if changes and key ~= '' then free_keys(q, {key}) end
if q.paused then
  redis.call('DEL', q.token)
elseif changes then
  local ready = tonumber(m.keyed or 0) - tonumber(m.void or 0)
  for p = 1, 4 do ready = ready + redis.call('LLEN', q.ready[p]) end
  -- Waiting claims do not know the next due time, since they got none while the queue was paused.
  if ready > 0 or next_due(q) then wake(q) end
end
local reply = {0, now}
if key == '' then
  for i, number in ipairs(redis.call('HMGET', q.record, unpack(ARGV, first.rules, behind - 1))) do
    reply[2 + i] = tonumber(number or 0)
  end
else
  local own = numbers(redis.call('HGET', q.key_policies, key) or '', OWN)
  for i = first.rules, behind - 1 do reply[#reply + 1] = own[ARGV[i]] or 0 end
end
return reply
