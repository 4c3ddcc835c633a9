-- wake.sql: wake a claim that waits for a queue, in another process. With @busy, no claim of this process waits: if there is
-- another process, others no longer wake this one for the queue.
-- Params: @queue, @self as in parts/notified.sql, @payload of the notification, @busy
-- Returns: whether there is another process
-- Called by: (*Broker).notify
with woken as materialized (
{{notified}}
), stopped as (
  delete from jobs.waiter
  where @busy and queue = (select id from jobs.queue where name = @queue) and listener = @self and exists (select from woken)
)
select exists (select from woken)
