-- count_fold.sql: fold deltas of counts into the totals. Several at once take different ones.
-- Params: @limit, @floor of the deltas
-- Returns: one row: how many were folded
-- Called by: (*Broker).Prune, (*Broker).Queues, (*Broker).Enqueue
with taken as (
  delete from jobs.count_delta
  where ctid = any (array(select ctid from jobs.count_delta where n > @floor order by n limit @limit for update skip locked))
  returning queue, pending, scheduled, active, retry, completed, dead, cancelled, bytes
), folded as (
  insert into jobs.count_total as t (queue, pending, scheduled, active, retry, completed, dead, cancelled, bytes)
  select queue, sum(pending), sum(scheduled), sum(active), sum(retry), sum(completed), sum(dead), sum(cancelled), sum(bytes)
  from taken group by queue order by queue
  on conflict (queue) do update set
    pending = t.pending + excluded.pending, scheduled = t.scheduled + excluded.scheduled, active = t.active + excluded.active,
    retry = t.retry + excluded.retry, completed = t.completed + excluded.completed, dead = t.dead + excluded.dead,
    cancelled = t.cancelled + excluded.cancelled, bytes = t.bytes + excluded.bytes
)
select count(*) from taken
