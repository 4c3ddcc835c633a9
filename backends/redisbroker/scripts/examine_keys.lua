-- examine_keys: examine a page of the ready entries of keys, of their counts, of the active jobs or the
-- ended jobs of keys, of blocked keys, of heads of keys, or of policies of keys.
--
-- KEYS   record heads leases by_key ended_keys scheduled retry dead completed cancelled held key_pieces
--        key_spans rings* blocked rechecked active_keys key_policies key_rates key_heads ready* token
--        bodies*
-- ARGV   now queues buckets part cursor most repair
--        (part: "line", "spans", "slots", "ended keys", "blocked", "key heads", "policies"; most:
--        records; repair: 1 to repair)
-- Reply  {0, now, cursor, records, told, then per finding: code, ID or key, what is
--        wrong, 1 if repaired, why not}; told is, for "line" and "spans": the creation time, priority and entry
--        of each job seen
-- @include clock
-- @include open
-- @include examine
-- @include pages
-- @include inspect_job
-- @include remove_keyed
-- @include wake

local q, m = open('paused', 'flow', 'thaw_again')
if q.refused then return q.refused end
q.paused = m.paused == '1'
read_limits(q, m.flow)

-- seated reports whether a key with a pending job of a priority is in the ring of that priority, or
-- among the blocked keys.
local function seated(key, p)
  return redis.call('ZSCORE', q.rings[p], key) or redis.call('ZSCORE', q.blocked, key) or redis.call('ZSCORE', q.rechecked, key)
end

local function reseat(key)
  redis.call('ZREM', q.blocked, key)
  if admit(q, key, own_rules(q, {key})[1]) then wake(q) end
end

-- examine_ready_entries examines the ready entries in a piece of a key.
local function examine_ready_entries(p, key, piece)
  for t in string.gmatch(piece, '[^\n]+') do
    local id = id_of_ready(t)
    local body = body_of(q, id)
    local s = body and look(q, id, body)
    local function remove() remove_ready(q, key, p, t) end
    if not body or s.key ~= key then
      found('entry-without-job', id, 'it is among the ready entries of the key and is not stored with that key', remove)
    elseif s.home ~= 'ready' then
      found('job-listed-twice', id, 'it is among ' .. CALLED[s.home] .. ', as it should be, and a ready entry of its key', remove)
    elseif s.ready_entry ~= t or int(s.priority) ~= p then
      found('entry-of-other-epoch', id, 'its ready entry is of another epoch or priority', remove)
    else
      told[#told + 1] = string.sub(body, 1, 8) .. s.priority .. t
      if not seated(key, tonumber(p)) then
        found('key-without-turn', key, 'it has pending jobs, no turn, and nothing that it waits for', function() reseat(key) end)
      end
    end
  end
end

-- examine_piece examines a piece that is not the first one of its span.
local function examine_piece(field, piece)
  local p, key, number = string.match(field, '^([1-4])([^%z]+)%z(%-?%d+)$')
  local head, tail = 1, 0
  if p then head, tail = ends_of(span_for(q, p, key)) end
  number = tonumber(number)
  if p and number > head and number <= tail then return examine_ready_entries(p, key, piece) end
  found('entry-malformed', (string.gsub(field, '%z', ' ')), 'a piece of ready entries is of no key', function()
    redis.call('HDEL', q.key_pieces, field)
  end)
end

local function examine_listing(key)
  if redis.call('ZSCORE', q.by_key, key .. '\0') then return end
  found('key-entry-missing', key, 'the key has a policy or pending jobs, and is not listed', function() list_keys(q, {key}) end)
end

local PIECES = 1000 -- the entries of a key with more pieces are not counted, since that would take too long

-- examine_span examines the first piece of a span, and compares the number of the span's ready entries with
-- the stored count.
local function examine_span(field, text)
  local p, key = string.match(field, '^([1-4])([^%z]+)$')
  if not p then
    return found('entry-malformed', field, 'a count of jobs is of no key', function() redis.call('HDEL', q.key_spans, field) end)
  end
  examine_ready_entries(p, key, span_of(text).piece)
  local span, fields = span_for(q, p, key), {}
  if span.n == 0 and redis.call('HEXISTS', q.key_spans, field) == 0 then return end -- repairs removed the last entry
  local n = select(2, string.gsub(span.piece, '\n', ''))
  local head, tail = ends_of(span)
  if tail - head >= PIECES then return end
  for number = head + 1, tail do fields[#fields + 1] = piece_field(field, number) end
  if #fields > 0 then
    for _, piece in ipairs(redis.call('HMGET', q.key_pieces, unpack(fields))) do n = n + select(2, string.gsub(piece or '', '\n', '')) end
  end
  if n == span.n and n > 0 then return examine_listing(key) end
  local what = int(span.n) .. ' of its jobs are counted as pending, and ' .. n .. ' have a ready entry'
  found('key-count-differs', key, what, function()
    if n == 0 then return clear_pieces(q, field, span) end
    redis.call('HSET', q.key_spans, field, span_text(n, span.head, span.tail, span.piece))
  end)
end

local function examine_slot(e)
  local key, id = string.match(e, '^([^%z]*)%z(.*)$')
  local lease = id and redis.call('HGET', q.leases, id)
  if lease and (not string.find(lease, '^%d+:') or not held(lease)) then return end
  found('key-count-differs', id or e, 'it counts as active for its key, and is not', function()
    redis.call('ZREM', q.active_keys, e)
    if key and free_keys(q, {key}) then wake(q) end
  end)
end

local function examine_ended(e)
  local key, id = string.match(e, '^([^%z]*)%z(.*)$')
  local body = id and body_of(q, id)
  local s = body and look(q, id, body)
  if s and s.key == key and (HOME[s.state] or s.dead or s.completed or s.cancelled) then return end
  found('key-entry-without-job', id or e, 'the index of keys has it among those that ended, and it did not, or is gone', function()
    redis.call('ZREM', q.ended_keys, e)
  end)
end

local to_thaw = m.thaw_again and redis.call('EXISTS', q.rechecked) == 1 -- claims will look at all blocked keys anyway
local function examine_blocked(key, at)
  if select(2, pending_of(q, key)) == 0 then
    found('key-without-turn', key, 'it is kept back, and has no pending jobs', function() redis.call('ZREM', q.blocked, key) end)
  elseif at >= FAR and not to_thaw and key_room(q, key, own_rules(q, {key})[1]).room > 0 then
    found('key-without-turn', key, 'it is kept back, and nothing keeps it', function() reseat(key) end)
  end
end

local function examine_head(key, head)
  local id = string.match(head, '^[^\n]*')
  local body = body_of(q, id)
  local s = body and look(q, id, body)
  if s and s.key == key and s.state ~= COMPLETED and s.state ~= CANCELLED then return end
  found('key-head-wrong', id, 'the jobs of its key ' .. key .. ' come after it, and it is gone or ended', function()
    redis.call('HDEL', q.key_heads, key)
    if free_keys(q, {key}) then wake(q) end
  end)
end

-- A page, by name, of a set whose members all have the same score.
local by_name = {slots = {q.active_keys, examine_slot}, ['ended keys'] = {q.ended_keys, examine_ended}}
local by_field = {line = {q.key_pieces, examine_piece}, spans = {q.key_spans, examine_span}, ['key heads'] = {q.key_heads, examine_head},
  policies = {q.key_policies, examine_listing}}
if by_name[part] then
  local set, examine_one = unpack(by_name[part])
  local page = redis.call('ZRANGE', set, cursor == '' and '-' or '(' .. cursor, '+', 'BYLEX', 'LIMIT', 0, most)
  records = #page
  for _, e in ipairs(page) do examine_one(e) end
  return answer(#page == most and page[#page] or '')
elseif by_field[part] then
  local key, examine_one = unpack(by_field[part])
  local page, at = scanned(key, cursor, most)
  for _, field in ipairs(page) do examine_one(field[1], field[2]) end
  return answer(at)
end
local page, at = timed(q.blocked, cursor, most, '', '')
records = #page
for _, key in ipairs(page) do examine_blocked(key, tonumber(redis.call('ZSCORE', q.blocked, key) or 0)) end
return answer(at)
