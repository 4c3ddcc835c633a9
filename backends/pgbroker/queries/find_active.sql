-- find_active.sql: a page of active jobs, of one worker or of all, by worker and ID.
-- Params: $1 queue, $2 worker|null, $3 worker's number and $4 ID after which the page begins, $5 limit
-- Returns: worker's number, 0, and the other columns of foundRow
-- Called by: (*Broker).Find
select w.num, 0::bigint, j.state, j.run_at, null::bigint, j.cancel, w.id,
       j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body
from (select num, id from jobs.worker
      where queue = (select id from jobs.queue where name = $1) and num >= $3 and ($2::text is null or id = $2) order by num) w
cross join lateral (
  select * from jobs.job where worker = w.num and (w.num > $3 or id > $4) order by id limit $5) j
order by w.num, j.id limit $5
