-- examine_total.sql: change the counts of held and of suppressed jobs.
-- Params: @queue number of the queue, @waiting and @suppressed by how much
-- Returns: nothing
-- Called by: (*Broker).Examine
insert into jobs.count_total as t (queue, waiting, suppressed) values (@queue, @waiting, @suppressed)
on conflict (queue) do update set waiting = t.waiting + excluded.waiting, suppressed = t.suppressed + excluded.suppressed
