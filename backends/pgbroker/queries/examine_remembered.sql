-- examine_remembered.sql: read a page of remembered IDs, and whether their queues exist.
-- Params: @id and @queue number of a queue after which the page begins, @limit
-- Returns: one row per ID, in the order of the page: ID, number and name of the queue|null, layout, nothing
-- Called by: (*Broker).Examine
select r.id, r.queue, q.name, coalesce(q.layout, 0), false
from (select id, queue from jobs.remembered where (id, queue) > (@id::text, @queue::int) order by id, queue limit @limit) r
left join lateral (select name, layout from jobs.queue where id = r.queue limit 1) q on true
order by r.id, r.queue
