-- A guard is an entry of more than 64 bytes. It keeps Redis from storing a hash or a sorted set in its compact
-- form, in which each look-up is a scan. In a sorted set it is the last member, with an infinite score.
local GUARD = string.rep('\0', 65)

local function is_guard(member) return not member or string.byte(member) == 0 end

-- add_guarded adds scores and members to a sorted set, and its guard. prune.lua removes the guard if it is the
-- only member. without_guard counts the other members.
local function add_guarded(set, members) redis.call('ZADD', set, '+inf', GUARD, unpack(members)) end

local function without_guard(set) return math.max(0, redis.call('ZCARD', set) - 1) end
