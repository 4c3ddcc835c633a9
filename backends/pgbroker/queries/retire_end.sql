-- retire_end.sql: make a worker's ID dead in queues.
-- The lock is stronger than the update needs: it waits for claims of the worker that are under way.
-- Params: $1 now µs|null, $2 worker, $3 queues
-- Returns: nothing
-- Called by: (*Broker).Retire, in one transaction between retire_meet.sql and retire_held.sql
with clock as materialized (
  select coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
), known as materialized (
  select w.queue, w.id, w.num from jobs.queue q join jobs.worker w on w.queue = q.id and w.id = $2
  where q.name = any ($3::text[]) and q.layout <= 1
  order by w.queue for update of w
), forgotten as (
  delete from jobs.settled s using known where s.worker = known.num
)
update jobs.worker w set ended_at = coalesce(w.ended_at, clock.now), drained = false
from clock, known k where w.queue = k.queue and w.id = k.id
