-- settle_verdicts.sql: the verdicts that were kept under a number, when a repeat overtook its first sending.
-- Params: $1 queue, $2 worker, $3 number
-- Returns: at most one row: verdicts
-- Called by: (*Broker).Settle
select s.verdicts
from jobs.queue q join jobs.worker w on w.queue = q.id and w.id = $2 join jobs.settled s on s.worker = w.num and s.number = $3
where q.name = $1
