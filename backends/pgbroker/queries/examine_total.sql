-- examine_total.sql: change the counts of held and of suppressed jobs.
-- Params: $1 number of the queue, $2 and $3 by how much
-- Returns: nothing
-- Called by: (*Broker).Examine
insert into jobs.count_total as t (queue, waiting, suppressed) values ($1, $2, $3)
on conflict (queue) do update set waiting = t.waiting + excluded.waiting, suppressed = t.suppressed + excluded.suppressed
