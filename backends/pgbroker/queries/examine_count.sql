-- examine_count.sql: note a change of counts.
-- Params: $1 number of the queue, $2 pending, $3 scheduled, $4 active, $5 retry, $6 completed, $7 dead, $8 cancelled
-- Returns: nothing
-- Called by: (*Broker).Examine
insert into jobs.count_delta (queue, pending, scheduled, active, retry, completed, dead, cancelled)
select $1, $2, $3, $4, $5, $6, $7, $8 where pg_current_xact_id() is not null -- before the number of the delta is drawn, as its floor asks
