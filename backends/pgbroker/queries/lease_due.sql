-- lease_due.sql: lease due jobs of one queue without making them pending first, which saves a write for each job. It does so only if no
-- job of the queue is pending. A setting of the transaction tells later statements how many jobs it leased.
-- Params: @now µs|null, @worker, @queues the queue, @limits how many jobs, @floors scan floors of the lanes 2 to 9, @seen how many due
--   jobs of each state are looked at, @bytes at which the answer ends, @due_at due time and @due_turns seq of the scan floor
-- Returns: one row per job, in order: the columns of claim.sql, and whether more may be due
-- Called by: (*Broker).Claim, in one transaction before claim_due.sql, if jobs are probably due
with {{claimable}}, seen as materialized (
  select d.*
  from share s cross join (values (2::smallint), (4::smallint)) as o(state)
  cross join lateral (
    select j.state, lane, run_at, seq from jobs.job j
    where {{due}}
    order by j.run_at, j.seq limit @seen) d
), turn as materialized (
  -- How many of the first jobs are in each state. The order of the index is the right order only if all have the same priority.
  select state, count(*) as most
  from (select state from seen order by run_at, seq limit (select most from share)) f
  where (select min(lane) = max(lane) from seen) and not exists (
    select from share s cross join generate_series(2, 9) as n(lane) cross join lateral (
      select from jobs.job j
      where {{pending}}
      order by j.seq limit 1) p)
  group by state
), picked as materialized (
  select l.*, sum(l.size) over (order by l.run_at, l.seq rows unbounded preceding) - l.size as before
  from share s cross join turn o cross join lateral (
    select ctid as place, id, state, run_at, seq, octet_length(body) + coalesce(octet_length(tail), 0) as size from jobs.job j
    where {{due}}
    order by j.run_at, j.seq limit o.most for update skip locked) l
), leased as (
  update jobs.job j set state = 3, run_at = null, worker = (select worker from share)
  where j.ctid = any (array(select place from picked where before < @bytes))
  returning j.queue, j.lane, j.seq, j.cancel, j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body,
            j.unique_key
), freed as (
  delete from jobs.unique_key u
  where u.queue = (select queue from share) and u.key = any (array(select unique_key from leased where unique_key is not null))
    and u.mode = 1 and exists (select from leased l where l.unique_key = u.key and l.id = u.job)
), given as materialized (
  select l.*, p.state as was, p.run_at, p.size from leased l join picked p on p.id = l.id
), counted as (
  insert into jobs.count_delta (queue, active, scheduled, retry, bytes)
  select queue, count(*), -count(*) filter (where was = 2), -count(*) filter (where was = 4), -sum(octet_length(body))
  from given group by queue
), told as materialized (
  -- Set this here, so that it is set once and not for each row.
  select set_config('jobs_claim.leased', count(*)::text, true), set_config('jobs_claim.bytes', sum(size)::text, true) from given
)
select queue, lane, seq, cancel, id, created_at, epoch, deliveries, failures, crashes, snoozes, tail, body,
       (select count(*) from seen) >= @seen or exists (select from picked where before >= @bytes)
from given cross join told
order by lane, run_at, seq
