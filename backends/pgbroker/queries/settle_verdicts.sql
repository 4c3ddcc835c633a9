-- settle_verdicts.sql: read the verdicts stored under a number, if another sending of the same request was applied first.
-- Params: @queue, @worker, @number
-- Returns: at most one row: verdicts
-- Called by: (*Broker).Settle
select s.verdicts
from jobs.queue q join jobs.worker w on w.queue = q.id and w.id = @worker join jobs.settled s on s.worker = w.num and s.number = @number
where q.name = @queue
