-- any_keyed reports whether jobs with a key are pending. key_spans also has a guard.
local function any_keyed(q) return redis.call('HLEN', q.key_spans) > 1 end
