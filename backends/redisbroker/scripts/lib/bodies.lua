-- bucket is the number of the hash that holds a job's body. Of a ULID it follows
-- from the time: jobs that come together leave together, and so look into the
-- same small hash. Its eighth character counts seconds, the ninth their 32nd
-- parts: slices of a tenth of a second, more or less, as the bytes of digits and
-- letters leave gaps. Go computes the same in slotOf. Other
-- IDs are in the first.
local function bucket(q, id)
  if q.buckets == 1 or #id ~= 26 then return 1 end
  local s, part = string.byte(id, 8, 9)
  return (s * 11 + (part - part % 4) / 4) % q.buckets + 1
end

-- by_bucket sorts a list of IDs, each with so many other things behind it, into
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

-- together reports whether all of ids may well be of one bucket.
local function together(q, ids)
  return q.buckets == 1 or bucket(q, ids[1]) == bucket(q, ids[#ids])
end
