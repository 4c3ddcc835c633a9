-- @include rules
-- @include key_range

-- The rules of a key's own policy, in the order in which key_policies and broker.Rules have them.
local OWN = {'paused', 'max_depth', 'max_active', 'rate', 'rate_per', 'rate_burst', 'weight'}

-- own_rules returns the own policies of some keys, by their index in the list.
local function own_rules(q, keys)
  if not (q.rules and q.rules.own) or #keys == 0 then return {} end
  local all = redis.call('HMGET', q.key_policies, unpack(keys))
  for i = 1, #all do all[i] = all[i] and numbers(all[i], OWN) end
  return all
end

local OF_QUEUE = {max_depth = 'key_max_depth', max_active = 'key_max_active'}

-- rule_of returns the value of a rule for a key. The key's own rules take precedence over the queue's rule for
-- keys.
local function rule_of(q, own, name)
  local n = own and own[name] or 0
  if n > 0 then return n end
  return q.rules[OF_QUEUE[name]]
end

-- key_rate returns the rate of a key with these own rules: jobs, time and burst. It returns nil or false if
-- there is none.
local function key_rate(q, own)
  local r = q.rules
  if not r then return nil end
  if own and own.rate > 0 then return {own.rate, own.rate_per, own.rate_burst} end
  return r.key_rate > 0 and r.rate_of_keys
end
