-- count_fold.sql: fold deltas of counts into the totals. Concurrent calls take different deltas.
-- Params: @limit, @floor of the deltas
-- Returns: one row: how many were folded
-- Called by: (*Broker).Prune, (*Broker).Queues, (*Broker).Enqueue
with taken as (
  delete from jobs.count_delta
  where ctid = any (array(select ctid from jobs.count_delta where n > @floor order by n limit @limit for update skip locked))
  returning queue, pending, scheduled, active, retry, completed, dead, cancelled, waiting, bytes,
    enqueued, done, failed, retried, died, crashed, dropped, expired, waits, waited, runs, ran
), folded as (
  insert into jobs.count_total as t (queue, pending, scheduled, active, retry, completed, dead, cancelled, waiting, bytes,
    enqueued, claimed, done, failed, retried, died, crashed, dropped, expired, waits, waited, runs, ran)
  select queue, sum(pending), sum(scheduled), sum(active), sum(retry), sum(completed), sum(dead), sum(cancelled),
         coalesce(sum(waiting), 0), sum(bytes),
         coalesce(sum(enqueued), 0), sum(greatest(active, 0)), coalesce(sum(done), 0), coalesce(sum(failed), 0), coalesce(sum(retried), 0),
         coalesce(sum(died), 0), coalesce(sum(crashed), 0), coalesce(sum(dropped), 0), coalesce(sum(expired), 0),
         coalesce(sum(waits), 0), least(coalesce(sum(waited), 0), 4e18), coalesce(sum(runs), 0), least(coalesce(sum(ran), 0), 4e18)
  from taken group by queue order by queue
  on conflict (queue) do update set
    pending = t.pending + excluded.pending, scheduled = t.scheduled + excluded.scheduled, active = t.active + excluded.active,
    retry = t.retry + excluded.retry, completed = t.completed + excluded.completed, dead = t.dead + excluded.dead,
    cancelled = t.cancelled + excluded.cancelled, waiting = t.waiting + excluded.waiting, bytes = t.bytes + excluded.bytes,
    enqueued = t.enqueued + excluded.enqueued, claimed = t.claimed + excluded.claimed, done = t.done + excluded.done,
    failed = t.failed + excluded.failed, retried = t.retried + excluded.retried, died = t.died + excluded.died,
    crashed = t.crashed + excluded.crashed, dropped = t.dropped + excluded.dropped, expired = t.expired + excluded.expired,
    waits = t.waits + excluded.waits, runs = t.runs + excluded.runs,
    -- Sums of times stay at this bound, so that they do not overflow.
    waited = least(t.waited + excluded.waited, 4000000000000000000), ran = least(t.ran + excluded.ran, 4000000000000000000)
)
select count(*) from taken
