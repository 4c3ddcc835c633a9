-- claim.sql: lease pending jobs in turn, share by share, to a worker that is alive in their queue. Queues whose priorities
-- take turns in rounds are left to claim_rounds.sql.
-- The nested loops are lazy under their limits: what is not needed is neither read nor locked.
-- Params: $1 worker, $2 limit over all shares, $3 queues, each once, $4 limit of each, $5 scan floors: for each queue
--   those of the lanes 2 to 9, $6 bytes at which the answer ends
-- Returns: one row per job: number of its queue, lane, seq, cancel, the columns of jobRow, and whether $6 left some out
-- Called by: (*Broker).Claim
with share as materialized (
  select s.ord, s.most, q.id as queue, w.num as worker
  from unnest($3::text[], $4::int[]) with ordinality as s(name, most, ord)
  cross join lateral (select id from jobs.queue where name = s.name and layout <= 1 and not paused and priority_round = 0 limit 1) q
  cross join lateral (select num from jobs.worker where queue = q.id and id = $1 and ended_at is null limit 1 for key share) w
), taken as materialized (
  -- What claim_ripe.sql took.
  select coalesce(nullif(current_setting('jobs_claim.leased', true), '')::int, 0) as jobs,
         coalesce(nullif(current_setting('jobs_claim.bytes', true), '')::bigint, 0) as bytes
), picked as materialized (
  select r.place, r.size, sum(r.size) over (rows unbounded preceding) - r.size + (select bytes from taken) as before
  from share s cross join lateral (
    select l.place, l.size
    from generate_series(2, 9) as n(lane) cross join lateral (
      select j.ctid as place, octet_length(j.body) + coalesce(octet_length(j.tail), 0) as size from jobs.job j
      where j.state = 1 and j.queue = s.queue and j.lane = n.lane::smallint and j.seq > ($5::bigint[])[(s.ord::int - 1) * 8 + n.lane - 1]
      order by j.seq limit s.most for update skip locked) l
    limit s.most) r
  limit $2 - (select jobs from taken)
), leased as (
  -- Perhaps not all that were picked: the lock is on the newest version of a row, which this statement may not see yet.
  update jobs.job j set state = 3, worker = (select s.worker from share s where s.queue = j.queue)
  where j.ctid = any (array(select place from picked where before < $6))
  returning j.queue, j.lane, j.seq, j.cancel, j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body,
            j.unique_key
), freed as (
  delete from jobs.unique_key u
  where u.queue = any (array(select queue from share)) and u.key = any (array(select unique_key from leased where unique_key is not null))
    and u.mode = 1 and exists (select from leased l where l.queue = u.queue and l.unique_key = u.key and l.id = u.job)
), counted as (
  insert into jobs.count_delta (queue, pending, active) select queue, -count(*), count(*) from leased group by queue
)
select queue, lane, seq, cancel, id, created_at, epoch, deliveries, failures, crashes, snoozes, tail, body,
       exists (select from picked where before >= $6)
from leased
