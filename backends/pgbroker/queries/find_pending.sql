-- find_pending.sql: a page of pending jobs, in turn.
-- Params: $1 queue, $2 lane and $3 seq after which the page begins, $4 limit
-- Returns: lane, seq, and the other columns of foundRow
-- Called by: (*Broker).Find
select j.lane::bigint, j.seq, j.state, j.run_at, null::bigint, j.cancel, null::text,
       j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body
from jobs.job j
where j.state = 1 and j.queue = (select id from jobs.queue where name = $1) and (j.lane, j.seq) > ($2::smallint, $3::bigint)
order by j.lane, j.seq limit $4
