-- find_key.sql: a page of the jobs of a key, wherever they are, by ID.
-- Params: @queue, @key, @id after which the page begins, @limit
-- Returns: the columns of foundRow
-- Called by: (*Broker).Find
(select 0::bigint, 0::bigint, j.state, j.run_at, null::bigint, j.cancel, coalesce(j.held, (select w.id from jobs.worker w
  where w.num = j.worker)),
        j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body
 from jobs.job j where j.queue = (select id from jobs.queue where name = @queue) and j.key = @key and j.id > @id and j.id <> ''
 order by j.id limit @limit)
union all
(select 0, 0, 6, null, d.died_at, null, null,
        d.id, d.created_at, d.epoch, d.deliveries, d.failures, d.crashes, d.snoozes, d.tail, d.body
 from jobs.dead d where d.queue = (select id from jobs.queue where name = @queue) and d.key = @key
   and d.id > @id order by d.id limit @limit)
union all
(select 0, 0, h.state, null, h.finished_at, null, null,
        h.id, h.created_at, h.epoch, h.deliveries, h.failures, h.crashes, h.snoozes, h.tail, h.body
 from jobs.history h where h.queue = (select id from jobs.queue where name = @queue) and h.key = @key
   and h.id > @id order by h.id limit @limit)
order by 8 limit @limit
