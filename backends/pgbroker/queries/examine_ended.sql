-- examine_ended.sql: read a page of dead jobs, or of completed and cancelled records.
-- Params: @dead whether of dead jobs, @id and @queue number of a queue after which the page begins, @limit
-- Returns: one row per record, in the order of the page: ID, number and name of the queue|null, layout, state, lane, whether
--   the job is dead and has a record as well, whether it is the first record of a queue that does not exist
-- Called by: (*Broker).Examine
with page as materialized (
  select p.* from (
    select id, queue, 6::smallint as state, lane from jobs.dead where @dead and (id, queue) > (@id::text, @queue::int) order by id,
      queue limit @limit) p
  union all
  select p.* from (
    select id, queue, state, 3::smallint as lane from jobs.history where not @dead and (id, queue) > (@id::text, @queue::int) order by id,
      queue limit @limit) p
)
select p.id, p.queue, q.name, coalesce(q.layout, 0), p.state, p.lane,
       @dead and exists (select from jobs.history h where h.id = p.id and h.queue = p.queue),
       q.name is null and not exists (select from jobs.job o where o.queue = p.queue)
         and not exists (select from jobs.dead o where o.queue = p.queue and (@dead and o.id < p.id or not @dead))
         and not exists (select from jobs.history o where o.queue = p.queue and not @dead and o.id < p.id)
from page p left join lateral (select name, layout from jobs.queue where id = p.queue limit 1) q on true
order by p.id, p.queue
