-- examine_waiting.sql: change the count of held jobs.
-- Params: $1 number of the queue, $2 by how much
-- Returns: nothing
-- Called by: (*Broker).Examine
update jobs.count_total set waiting = waiting + $2 where queue = $1
