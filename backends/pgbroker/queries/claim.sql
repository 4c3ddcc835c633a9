-- claim.sql: lease pending jobs in turn, share by share, to a worker that is alive in their queue.
-- The nested loops are lazy under their limits: what is not needed is neither read nor locked.
-- Params: $1 worker, $2 limit over all shares, $3 queues, each once, $4 limit of each, $5 scan floors: for each queue
--   those of the lanes 2 to 9
-- Returns: one row per job: ordinal of its share, lane, seq, cancel, and the columns of jobRow
-- Called by: (*Broker).Claim
with share as materialized (
  select s.ord, s.most, q.id as queue, w.num as worker
  from unnest($3::text[], $4::int[]) with ordinality as s(name, most, ord)
  join jobs.queue q on q.name = s.name and q.layout <= 1 and not q.paused
  join jobs.worker w on w.queue = q.id and w.id = $1 and w.ended_at is null
  order by s.ord
  for key share of w
), picked as materialized (
  select s.ord, s.queue, s.worker, r.place, r.id, r.unique_key
  from share s cross join lateral (
    select l.place, l.id, l.unique_key
    from generate_series(2, 9) as n(lane) cross join lateral (
      select j.ctid as place, j.id, j.unique_key from jobs.job j
      where j.state = 1 and j.queue = s.queue and j.lane = n.lane::smallint and j.seq > ($5::bigint[])[(s.ord::int - 1) * 8 + n.lane - 1]
      order by j.seq limit s.most for update skip locked) l
    limit s.most) r
  limit $2
), freed as (
  delete from jobs.unique_key u using picked p
  where p.unique_key is not null and u.queue = p.queue and u.key = p.unique_key and u.job = p.id and u.mode = 1
), counted as (
  insert into jobs.count_delta (queue, pending, active) select queue, -count(*), count(*) from picked group by queue
)
update jobs.job j set state = 3, worker = p.worker
from picked p where j.ctid = p.place
returning p.ord, j.lane, j.seq, j.cancel, j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body
