-- renew_lapse.sql: read when the next leases run out, of any worker. If an ended worker still holds jobs, its leases have already
-- run out.
-- Params: @now µs|null, @queues of the worker, @searched µs, up to when a Reclaim has found all that ran out there
-- Returns: one row: µs|null
-- Called by: (*Broker).Renew
with {{clock}}, leaving as materialized (
  select queue from jobs.worker where not drained and ended_at is not null
)
select least(
  (select p.until from jobs.pulse p
    cross join lateral (select from jobs.worker w where w.pulse = p.num and w.ended_at is null limit 1) followed
    where p.until > (select case when @searched::bigint > now then 0 else @searched end from clock) order by p.until limit 1),
  (select now from clock where exists (
    select from leaving l cross join lateral (select name from jobs.queue where id = l.queue limit 1) q
    where q.name = any (@queues::text[]))))
