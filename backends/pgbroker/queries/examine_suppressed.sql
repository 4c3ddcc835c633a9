-- examine_suppressed.sql: change the count of suppressed jobs.
-- Params: @queue number of the queue, @suppressed by how much
-- Returns: nothing
-- Called by: (*Broker).Examine
insert into jobs.count_total as t (queue, suppressed) values (@queue, @suppressed)
on conflict (queue) do update set suppressed = t.suppressed + excluded.suppressed
