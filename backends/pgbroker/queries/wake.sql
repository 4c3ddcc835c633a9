-- wake.sql: wake a claim that waits for a queue, in another process. With @busy others no longer
-- wake this process for the queue: none of its claims waits.
-- Params: @queue, @self as in parts/notified.sql, @payload of the notification, @busy
-- Returns: a row if there is such a claim, which is ignored
-- Called by: (*Broker).notify
with stopped as (
  delete from jobs.waiter
  where @busy and queue = (select id from jobs.queue where name = @queue) and listener = @self
)
{{notified}}
