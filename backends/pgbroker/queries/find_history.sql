-- find_history.sql: a page of completed or of cancelled records, by end.
-- Params: $1 queue, $2 state, $3 end and $4 ID after which the page begins, $5 time before which it ends, $6 limit
-- Returns: end, 0, and the other columns of foundRow
-- Called by: (*Broker).Find
select h.finished_at, 0::bigint, h.state, null::bigint, h.finished_at, null::boolean, null::text,
       h.id, h.created_at, h.epoch, h.deliveries, h.failures, h.crashes, h.snoozes, h.tail, h.body
from jobs.history h
where h.queue = (select id from jobs.queue where name = $1) and h.state = $2 and (h.finished_at, h.id) > ($3::bigint, $4::text)
  and h.finished_at < $5
order by h.finished_at, h.id limit $6
