-- find_due.sql: read a page of scheduled, of retry or of held jobs, by due time.
-- Params: @queue, @state, @run_at due time and @seq after which the page begins, @until time before which it ends, @limit
-- Returns: due time, seq, and the other columns of foundRow
-- Called by: (*Broker).Find
select j.run_at, j.seq, j.state, j.run_at, null::bigint, j.cancel, j.held,
       j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body
from jobs.job j
where j.queue = (select id from jobs.queue where name = @queue) and j.state = @state and (j.run_at, j.seq) > (@run_at::bigint, @seq::bigint)
  and j.run_at < @until
order by j.run_at, j.seq limit @limit
