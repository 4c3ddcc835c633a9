-- examine_waiting.sql: change the count of held jobs.
-- Params: $1 number of the queue, $2 by how much
-- Returns: nothing
-- Called by: (*Broker).Examine
insert into jobs.count_total as t (queue, waiting) values ($1, $2)
on conflict (queue) do update set waiting = t.waiting + excluded.waiting
