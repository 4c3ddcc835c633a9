-- find_key.sql: read a page of the jobs of a key, from all tables: first the jobs in job, by lane and seq, which change only when a job
-- becomes pending; then dead jobs by ID, then other records by ID.
-- Params: @queue, @key, @place and @seq and @id after which the page begins, @limit
-- Returns: the place, which is the lane in job, 100 in dead, 200 in history; seq; the other columns of foundRow
-- Called by: (*Broker).Find
(select j.lane::bigint, j.seq, j.state, j.run_at, null::bigint, j.cancel, coalesce(j.held, (select w.id from jobs.worker w
  where w.num = j.worker)),
        j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body
 from (values (1::smallint), (2), (3), (4), (8)) as o(state) cross join lateral (
   select * from jobs.job
   where queue = (select id from jobs.queue where name = @queue) and key = @key and job.state = o.state
     and (lane, seq) > (least(greatest(@place::bigint, 0), 100)::smallint, @seq::bigint)
   order by lane, seq limit @limit) j
 order by j.lane, j.seq limit @limit)
union all
(select 100, 0, 6, null, d.died_at, null, null,
        d.id, d.created_at, d.epoch, d.deliveries, d.failures, d.crashes, d.snoozes, d.tail, d.body
 from jobs.dead d where d.queue = (select id from jobs.queue where name = @queue) and d.key = @key and @place <= 100
   and d.id > case when @place = 100 then @id::text else '' end order by d.id limit @limit)
union all
(select 200, 0, h.state, null, h.finished_at, null, null,
        h.id, h.created_at, h.epoch, h.deliveries, h.failures, h.crashes, h.snoozes, h.tail, h.body
 from jobs.history h where h.queue = (select id from jobs.queue where name = @queue) and h.key = @key
   and h.id > case when @place = 200 then @id::text else '' end order by h.id limit @limit)
order by 1, 2, 8 limit @limit
