-- retire_end.sql: make a worker's ID dead in queues, also where it never registered.
-- Waits for claims of the worker that are under way.
-- Params: $1 now µs|null, $2 worker, $3 queues
-- Returns: nothing
-- Called by: (*Broker).Retire, in one transaction before retire_held.sql
with clock as materialized (
  select coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
), ended as (
  insert into jobs.worker as w (queue, id, until, ended_at, info)
  select q.id, $2, clock.now, clock.now, '' from clock, jobs.queue q
  where q.name = any ($3::text[]) and q.layout <= 1
  on conflict (queue, id) do update set ended_at = coalesce(w.ended_at, excluded.ended_at), drained = false
  returning num
)
delete from jobs.settled s using ended where s.worker = ended.num
