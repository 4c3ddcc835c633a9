-- find_key.sql: a page of the jobs of a key, wherever they are, by ID.
-- Params: $1 queue, $2 key, $3 ID after which the page begins, $4 limit
-- Returns: the columns of foundRow
-- Called by: (*Broker).Find
(select 0::bigint, 0::bigint, j.state, j.run_at, null::bigint, j.cancel, coalesce(j.held, (select w.id from jobs.worker w where w.num = j.worker)),
        j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body
 from jobs.job j where j.queue = (select id from jobs.queue where name = $1) and j.key = $2 and j.id > $3 order by j.id limit $4)
union all
(select 0, 0, 6, null, d.died_at, null, null,
        d.id, d.created_at, d.epoch, d.deliveries, d.failures, d.crashes, d.snoozes, d.tail, d.body
 from jobs.dead d where d.queue = (select id from jobs.queue where name = $1) and d.key = $2 and d.id > $3 order by d.id limit $4)
union all
(select 0, 0, h.state, null, h.finished_at, null, null,
        h.id, h.created_at, h.epoch, h.deliveries, h.failures, h.crashes, h.snoozes, h.tail, h.body
 from jobs.history h where h.queue = (select id from jobs.queue where name = $1) and h.key = $2 and h.id > $3 order by h.id limit $4)
order by 8 limit $4
