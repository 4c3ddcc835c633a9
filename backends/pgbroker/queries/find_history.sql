-- find_history.sql: read a page of completed or of cancelled records, by end.
-- Params: @queue, @state, @finished_at end and @id after which the page begins, @until time before which it ends, @limit
-- Returns: end, 0, and the other columns of foundRow
-- Called by: (*Broker).Find
select h.finished_at, 0::bigint, h.state, null::bigint, h.finished_at, null::boolean, null::text,
       h.id, h.created_at, h.epoch, h.deliveries, h.failures, h.crashes, h.snoozes, h.tail, h.body
from jobs.history h
where h.queue = (select id from jobs.queue where name = @queue) and h.state = @state and (h.finished_at, h.id) > (@finished_at::bigint,
  @id::text)
  and h.finished_at < @until
order by h.finished_at, h.id limit @limit
