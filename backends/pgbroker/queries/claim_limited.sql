-- claim_limited.sql: lease pending jobs of a queue without keys, as claim.sql does, but only as many as the queue's limits allow,
-- and count them for its rate.
-- Params: @worker, @queue, @limit of its share, @total limit of all shares, @floors scan floors of the lanes 2 to 9, @bytes at which
--   the answers end
-- Returns: one row per job: the columns of claim.sql
-- Called by: (*Broker).Claim, in one transaction after flow_room.sql
with share as materialized (
  select 1 as ord, q.id as queue, w.num as worker, {{allowed}} as most
  from jobs.queue q
  cross join lateral (select num from jobs.worker where queue = q.id and id = @worker and ended_at is null limit 1 for key share) w
  where q.name = @queue and q.layout <= 1 and not q.paused and q.flow & 1 = 0 and q.priority_round = 0
), {{taken}}, picked as materialized (
  select r.place, r.size, sum(r.size) over (rows unbounded preceding) - r.size + (select bytes from taken) as before
  from share s cross join lateral (
    select l.place, l.size
    from generate_series(2, 9) as n(lane) cross join lateral (
      select j.ctid as place, octet_length(j.body) + coalesce(octet_length(j.tail), 0) as size from jobs.job j
      where {{pending}}
      order by j.seq limit s.most for update skip locked) l
    limit s.most) r
), leased as (
  -- This may update fewer jobs than were picked, as in claim.sql.
  update jobs.job j set state = 3, worker = (select worker from share)
  where j.ctid = any (array(select place from picked where before < @bytes))
  returning j.queue, j.lane, j.seq, j.cancel, j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body,
            j.unique_key
), {{started}}, spent as (
  update jobs.limiter set used = used + (select count(*) from leased)
  where queue = (select id from jobs.queue where name = @queue and rate > 0) and exists (select from leased)
), told as materialized (
  select set_config('jobs_claim.leased', (t.jobs + count(l.*))::text, true),
         set_config('jobs_claim.bytes', (t.bytes + coalesce(sum(octet_length(l.body) + coalesce(octet_length(l.tail), 0)), 0))::text, true)
  from taken t left join leased l on true group by t.jobs, t.bytes
)
select queue, lane, seq, cancel, id, created_at, epoch, deliveries, failures, crashes, snoozes, tail, body,
       exists (select from picked where before >= @bytes)
from leased cross join told
