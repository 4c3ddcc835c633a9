-- claim.sql: lease pending jobs in order, share by share, to a worker that is alive in their queue. It skips queues with a
-- priority round, which claim_rounds.sql serves.
-- The nested loops stop at their limits, so that rows that are not needed are neither read nor locked.
-- Params: @worker, @limit over all shares, @queues, each once, @limits limit of each, @floors scan floors: for each queue those of the
--   lanes 2 to 9, @bytes at which the answer ends
-- Returns: one row per job: number of its queue, lane, seq, cancel, the columns of jobRow, and whether @bytes left some out
-- Called by: (*Broker).Claim
with {{claimable}}, {{taken}}, picked as materialized (
  select r.place, r.size, sum(r.size) over (rows unbounded preceding) - r.size + (select bytes from taken) as before
  from share s cross join lateral (
    select l.place, l.size
    from generate_series(2, 9) as n(lane) cross join lateral (
      select j.ctid as place, octet_length(j.body) + coalesce(octet_length(j.tail), 0) as size from jobs.job j
      where {{pending}}
      order by j.seq limit s.most for update skip locked) l
    limit s.most) r
  where s.priority_round = 0
  limit @limit - (select jobs from taken)
), leased as (
  -- This may update fewer jobs than were picked: the lock is on the newest version of a row, which this statement may not see yet.
  update jobs.job j set state = 3, worker = (select s.worker from share s where s.queue = j.queue)
  where j.ctid = any (array(select place from picked where before < @bytes))
  returning j.queue, j.lane, j.seq, j.cancel, j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body,
            j.unique_key
), {{started}}
select queue, lane, seq, cancel, id, created_at, epoch, deliveries, failures, crashes, snoozes, tail, body,
       exists (select from picked where before >= @bytes)
from leased
