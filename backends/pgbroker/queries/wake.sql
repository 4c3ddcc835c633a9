-- wake.sql: wake a claim that waits for a queue, in another process. With @busy no claim of this process waits for it any more, so
-- that others need not wake it.
-- Params: @queue, @self as in parts/notified.sql, @payload of the notification, @busy
-- Returns: a row if there is such a claim, of no use
-- Called by: (*Broker).notify
with stopped as (
  delete from jobs.waiter
  where @busy and queue = (select id from jobs.queue where name = @queue) and listener = @self
)
{{notified}}
