-- reclaim_drained.sql: note which ended workers hold no lease any more.
-- Params: $1 queues
-- Returns: one row: whether any ended worker still holds one
-- Called by: (*Broker).Reclaim, in one transaction after reclaim.sql
with ended as materialized (
  select w.queue, w.id, exists (select from jobs.job j where j.worker = w.num) as holds
  from jobs.queue q join jobs.worker w on w.queue = q.id
  where q.name = any ($1::text[]) and not w.drained and w.ended_at is not null
), noted as (
  update jobs.worker w set drained = true from ended e where not e.holds and w.queue = e.queue and w.id = e.id
)
select coalesce(bool_or(holds), false) from ended
