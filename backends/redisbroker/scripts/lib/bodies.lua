-- bucket returns the number of the hash that has a job's body. For a ULID it is computed
-- from the time, so that jobs that are enqueued and claimed together are in the same small
-- hash. The eighth character of a ULID counts seconds, the ninth 32nds of a second. A
-- bucket is used for about a tenth of a second at a time; not exactly, since there is a gap
-- between the bytes of digits and letters. Other IDs are in the first bucket. Go computes
-- the same in slotOf.
local function bucket(q, id)
  if q.buckets == 1 or #id ~= 26 then return 1 end
  local s, part = string.byte(id, 8, 9)
  return (s * 11 + (part - part % 4) / 4) % q.buckets + 1
end

-- by_bucket divides a list of IDs, each followed by a number of other values, into
-- lists by bucket.
local function by_bucket(q, list, others)
  local lists = {}
  for i = 1, #list, 1 + others do
    local b = bucket(q, list[i])
    local into = lists[b] or {}
    lists[b] = into
    local n = #into
    for k = 0, others do into[n + 1 + k] = list[i + k] end
  end
  return lists
end

-- together reports whether all of ids are probably in one bucket.
local function together(q, ids)
  return q.buckets == 1 or bucket(q, ids[1]) == bucket(q, ids[#ids])
end
