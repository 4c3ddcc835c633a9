-- examine_keys.sql: read a page of unique keys.
-- Params: @key and @queue number of a queue after which the page begins, @limit
-- Returns: one row per key, in the order of the page: key, number and name of the queue|null, layout, holder, mode, whether
--   its hold ends, state of the holder|null, its unique key|null, leases of it that ended, whether the holder is dead
-- Called by: (*Broker).Examine
select u.key, u.queue, q.name, coalesce(q.layout, 0), u.job, u.mode, u.until is not null, j.state, j.unique_key, coalesce(j.deliveries, 0),
       exists (select from jobs.dead d where d.id = u.job and d.queue = u.queue)
from (select * from jobs.unique_key where (key, queue) > (@key::text, @queue::int) order by key, queue limit @limit) u
left join lateral (select name, layout from jobs.queue where id = u.queue limit 1) q on true
left join lateral (select state, unique_key, deliveries from jobs.job where id = u.job and queue = u.queue limit 1) j on true
order by u.key, u.queue
