-- find_due.sql: a page of scheduled, of retry or of held jobs, by due time.
-- Params: $1 queue, $2 state, $3 due time and $4 seq after which the page begins, $5 time before which it ends, $6 limit
-- Returns: due time, seq, and the other columns of foundRow
-- Called by: (*Broker).Find
select j.run_at, j.seq, j.state, j.run_at, null::bigint, j.cancel, j.held,
       j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body
from jobs.job j
where j.queue = (select id from jobs.queue where name = $1) and j.state = $2 and (j.run_at, j.seq) > ($3::bigint, $4::bigint)
  and j.run_at < $5
order by j.run_at, j.seq limit $6
