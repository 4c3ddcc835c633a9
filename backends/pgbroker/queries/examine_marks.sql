-- examine_marks.sql: read a page of marks, and the last fence that was generated.
-- Params: @name after which the page begins, @limit
-- Returns: one row per mark, in the order of their names: name, fence, last fence
-- Called by: (*Broker).Examine
select m.name, m.fence, (select last_value from jobs.mark_fence)
from (select name, fence from jobs.mark where name > @name::text collate "C" order by name limit @limit) m order by m.name
