-- reclaim.sql: hand leases of ended workers to another worker, as new leases.
-- Params: $1 worker, $2 queues, $3 limit, $4 now µs|null
-- Returns: one row per job: ordinal of its queue, lane, seq, cancel, and the columns of jobRow
-- Called by: (*Broker).Reclaim, in one transaction after reclaim_end.sql, whose locks it needs
with share as materialized (
  select s.ord, q.id as queue, w.num as worker
  from unnest($2::text[]) with ordinality as s(name, ord)
  join jobs.queue q on q.name = s.name and q.layout <= 1
  join jobs.worker w on w.queue = q.id and w.id = $1 and w.ended_at is null
   and w.until > coalesce($4::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
), picked as materialized (
  select s.ord, s.worker, l.place
  from share s
  join jobs.worker e on e.queue = s.queue and not e.drained and e.ended_at is not null
  cross join lateral (select j.ctid as place from jobs.job j where j.worker = e.num limit $3 for update skip locked) l
  limit $3
)
update jobs.job j set worker = p.worker, epoch = coalesce(j.epoch, 0) + 1
from picked p where j.ctid = p.place
returning p.ord, j.lane, j.seq, j.cancel, j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body
