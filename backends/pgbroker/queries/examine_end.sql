-- examine_end.sql: end a worker that is alive and counts as drained, or one that counts as drained and holds leases, so that
-- its jobs are taken over; or remove one whose queue is gone.
-- Params: $1 now µs|null, $2 ID, $3 number of its queue
-- Returns: nothing
-- Called by: (*Broker).Examine
with gone as (
  delete from jobs.worker w where w.id = $2 and w.queue = $3 and not exists (select from jobs.queue where id = $3)
)
update jobs.worker set drained = false,
  ended_at = coalesce(ended_at, coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint))
where id = $2 and queue = $3 and drained and exists (select from jobs.queue where id = $3)
