-- reclaim.sql: lease jobs of ended workers to another worker.
-- Params: @worker, @queues, @limit, @now µs|null, @bytes at which the answer ends
-- Returns: one row per job: number of its queue, lane, seq, cancel, and the columns of jobRow
-- Called by: (*Broker).Reclaim, in one transaction after reclaim_end.sql, whose locks it needs
with share as materialized (
  select s.ord, q.id as queue, w.num as worker
  from unnest(@queues::text[]) with ordinality as s(name, ord)
  cross join lateral (select id from jobs.queue where name = s.name and layout <= 1 limit 1) q
  cross join lateral (
    select num from jobs.worker where queue = q.id and id = @worker and ended_at is null
      and (select until from jobs.pulse p where p.num = pulse)
        > {{now}} limit 1) w
), picked as materialized (
  select l.place, sum(l.size) over (rows unbounded preceding) - l.size as before
  from share s
  cross join lateral (select num from jobs.worker where queue = s.queue and not drained and ended_at is not null offset 0) e
  cross join lateral (
    select j.ctid as place, octet_length(j.body) + coalesce(octet_length(j.tail), 0) as size from jobs.job j
    where j.worker = e.num limit @limit for update skip locked) l
  limit @limit
)
update jobs.job j set worker = (select s.worker from share s where s.queue = j.queue), epoch = coalesce(j.epoch, 0) + 1
where j.ctid = any (array(select place from picked where before < @bytes))
returning j.queue, j.lane, j.seq, j.cancel, j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body
