-- place.sql: the number of the queue.
-- Params: @queue
place as materialized (select id from jobs.queue where name = @queue)
