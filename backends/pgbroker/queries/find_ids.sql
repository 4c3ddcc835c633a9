-- find_ids.sql: read the jobs with these IDs, in all tables.
-- Params: @queue, @ids
-- Returns: the columns of foundRow
-- Called by: (*Broker).Find
select 0::bigint, 0::bigint, j.state, j.run_at, null::bigint, j.cancel, coalesce(j.held, (select w.id from jobs.worker w
  where w.num = j.worker)),
       j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body
from jobs.job j where j.queue = (select id from jobs.queue where name = @queue) and j.id = any (@ids::text[])
union all
select 0, 0, 6, null, d.died_at, null, null,
       d.id, d.created_at, d.epoch, d.deliveries, d.failures, d.crashes, d.snoozes, d.tail, d.body
from jobs.dead d where d.queue = (select id from jobs.queue where name = @queue) and d.id = any (@ids::text[])
union all
select 0, 0, h.state, null, h.finished_at, null, null,
       h.id, h.created_at, h.epoch, h.deliveries, h.failures, h.crashes, h.snoozes, h.tail, h.body
from jobs.history h where h.queue = (select id from jobs.queue where name = @queue) and h.id = any (@ids::text[])
