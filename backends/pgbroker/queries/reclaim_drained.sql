-- reclaim_drained.sql: record which ended workers hold no lease any more.
-- Params: @queues
-- Returns: one row: whether any ended worker still holds one
-- Called by: (*Broker).Reclaim, in one transaction after reclaim.sql
with ended as materialized (
  select w.num, exists (select from jobs.job j where j.worker = w.num) as holds
  from jobs.worker w
  where w.queue = any (array(select id from jobs.queue where name = any (@queues::text[]))) and not w.drained and w.ended_at is not null
), noted as (
  -- Leave locked workers to a later call.
  update jobs.worker set drained = true where num = any (array(
    select num from jobs.worker where num = any (array(select num from ended where not holds)) for no key update skip locked))
)
select coalesce(bool_or(holds), false) from ended
