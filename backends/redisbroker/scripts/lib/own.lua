-- @include rules
-- @include key_range

-- The rules of a key of its own, as key_policies has them: in the order of broker.Rules.
local OWN = {'paused', 'max_depth', 'max_active', 'rate', 'rate_per', 'rate_burst', 'weight'}

-- own_rules are the policies of some keys, by their places in the list.
local function own_rules(q, keys)
  if not (q.rules and q.rules.own) or #keys == 0 then return {} end
  local all = redis.call('HMGET', q.key_policies, unpack(keys))
  for i = 1, #all do all[i] = all[i] and numbers(all[i], OWN) end
  return all
end

-- rule_of is what a rule of a key with these own rules is.
local function rule_of(q, own, name)
  local n = own and own[name] or 0
  if n > 0 then return n end
  return q.rules['key_' .. name]
end

-- key_rate is the rate of such a key: how many jobs, per how long, how many more.
local function key_rate(q, own)
  local r = q.rules
  if not r then return nil end
  if own and own.rate > 0 then return {own.rate, own.rate_per, own.rate_burst} end
  return r.key_rate > 0 and {r.key_rate, r.key_rate_per, r.key_rate_burst}
end
