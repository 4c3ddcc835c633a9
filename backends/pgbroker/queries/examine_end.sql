-- examine_end.sql: end a worker that counts as drained although it is alive or holds leases, so that other workers take over its
-- jobs; or remove a worker whose queue is gone.
-- Params: @now µs|null, @id, @queue number of its queue
-- Returns: nothing
-- Called by: (*Broker).Examine
with gone as (
  delete from jobs.worker w where w.id = @id and w.queue = @queue and not exists (select from jobs.queue where id = @queue)
)
update jobs.worker set drained = false,
  ended_at = coalesce(ended_at, {{now}})
where id = @id and queue = @queue and drained and exists (select from jobs.queue where id = @queue)
