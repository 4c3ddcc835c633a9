-- find_active.sql: read a page of active jobs, of one worker or of all, by worker and ID.
-- Params: @queue, @worker|null, @number worker's number and @id after which the page begins, @limit
-- Returns: worker's number, 0, and the other columns of foundRow
-- Called by: (*Broker).Find
select w.num, 0::bigint, j.state, j.run_at, null::bigint, j.cancel, w.id,
       j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body
from (select num, id from jobs.worker
      where queue = (select id from jobs.queue where name = @queue) and num >= @number
        and (@worker::text is null or id = @worker) order by num) w
cross join lateral (
  select * from jobs.job where worker = w.num and (w.num > @number or id > @id) order by id limit @limit) j
order by w.num, j.id limit @limit
