-- find_pending.sql: read a page of pending jobs, in order.
-- Params: @queue, @lane and @seq after which the page begins, @limit
-- Returns: lane, seq, and the other columns of foundRow
-- Called by: (*Broker).Find
select j.lane::bigint, j.seq, j.state, j.run_at, null::bigint, j.cancel, null::text,
       j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body
from (
  (select * from jobs.job
   where state = 1 and key is null and queue = (select id from jobs.queue where name = @queue)
     and (lane, seq) > (least(greatest(@lane::bigint, 0), 100)::smallint, @seq::bigint)
   order by lane, seq limit @limit)
  union all
  (select * from jobs.job
   where state = 1 and key <> '' and queue = (select id from jobs.queue where name = @queue)
     and (lane, seq) > (least(greatest(@lane::bigint, 0), 100)::smallint, @seq::bigint)
   order by lane, seq limit @limit)) j
order by j.lane, j.seq limit @limit
