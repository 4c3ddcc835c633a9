-- examine_marks: examine a page of the marks of a group.
--
-- KEYS   marks lapses fences
-- ARGV   now queues buckets part cursor most repair   (most: records; repair: 1 to repair)
-- Reply  {0, now, cursor, records, {}, then per finding: code, ID, what is wrong,
--        1 if repaired, why not}
-- @include clock

local q = names(0)
-- @include examine

local page, at = scanned(q.marks, cursor, most)
for _, field in ipairs(page) do
  local name, mark = field[1], field[2]
  local fence, till = string.match(mark, '^(%d+),(%d+),')
  if fence and not redis.call('ZSCORE', q.lapses, name) then
    found('mark-never-lapses', name, 'nothing removes it after its time', function() redis.call('ZADD', q.lapses, till, name) end)
  end
  local given = tonumber(redis.call('GET', q.fences) or 0)
  if fence and tonumber(fence) > given then
    found('mark-fence-behind', name, 'its fence is ' .. fence .. ', the last one given out is ' .. int(given), function()
      redis.call('SET', q.fences, fence)
    end)
  end
end
return answer(at)
