-- settle.sql: end leases of one worker in one queue, each with its outcome.
-- The lease is (queue, ID, epoch, worker). The test of the worker is written so that no plan can search index job_lease, which
-- PostgreSQL would otherwise do with some statistics. A job that was asked to cancel and whose outcome does not end it gets state 7
-- here, no matter when the request to cancel was committed; cancelled.sql then moves it. A setting of the transaction says how many
-- such jobs there are. State 3 marks an item that only keeps: the lease stays, with another tail.
-- Params: @now µs|null, @queue, @worker, @number of the request|null for none, @ids, @epochs, @states to go to, @delays µs, @fronts
--   whether to the front, @deliveries, @failures, @crashes, @snoozes, @tails (null: as it is), @charges (1 for a failure, 2 a crash, 4
--   if the job runs again after it, 8 if it expired), @waited and @ran µs, 0 for what does not count, @self|null and
--   @payload as in wake.sql
-- Returns: one row, none when the queue is not served: whether it is watched, the worker's last number|null, its
--   verdicts|null, the verdicts of this request (ordinal * 16 + state of each item that applied), whether another
--   sending of the request came first, whether ends of leases may make room for other jobs, nothing
-- Called by: (*Broker).Settle, (*Broker).Claim, (*Broker).CompleteTx, (*Broker).Retire
with clock as materialized (
  select {{now}} as now, pg_current_xact_id() as xid,
         {{store_time}} as real
), place as materialized (
  select id, keep_completed, keep_completed_count, {{duplicate_span}} as duplicate_span,
    watched_until, polled_until, ordered, opens
  from jobs.queue where name = @queue and layout <= 1
), holder as materialized (
  select num, ended_at is null and @number::bigint is not null as numbered
  from jobs.worker where queue = (select id from place) and id = @worker
), last as materialized (
  select number, verdicts from jobs.settled
  where worker = (select num from holder where numbered) order by number desc limit 1
), item as materialized (
  select n.*, n.front and n.state = 1 as ahead
  from unnest(@ids::text[], @epochs::bigint[], @states::smallint[], @delays::bigint[], @fronts::boolean[], @deliveries::int[],
    @failures::int[], @crashes::int[], @snoozes::int[], @tails::bytea[], @charges::smallint[], @waited::bigint[], @ran::bigint[])
    with ordinality as n(id, epoch, state, delay, front, deliveries, failures, crashes, snoozes, tail, charge, waited, ran, ord)
  where exists (select from holder) and not exists (select from last where number >= @number)
), held as materialized (
  -- Lock the jobs in the order of their IDs, as every other transaction does that waits for several jobs. The two writes below would
  -- each lock them in another order.
  select id from jobs.job
  where queue = (select id from place) and id = any (array(select id from item)) and worker is not distinct from (select num from holder)
  order by id for update
), ended as (
  delete from jobs.job j using item n
  where j.queue = (select id from place) and j.id = any (array(select id from held))
    and j.id = n.id and n.state >= 5 and coalesce(j.epoch, 0) = n.epoch and j.worker is not distinct from (select num from holder)
  returning n.ord, j.id, n.state, coalesce(j.retention, (select keep_completed from place)) as keep, j.given, j.unique_key, j.key, j.lane,
    j.shuts, j.retention, j.head, j.created_at, n.epoch + 1 as epoch, n.deliveries, n.failures, n.crashes, n.snoozes, n.tail,
    n.charge, n.waited, n.ran,
    case when n.state = 6 or coalesce(j.retention, (select keep_completed from place)) > 0 then j.body end as body
), turn as materialized (
  -- If a request puts several jobs to the front, the first of them is claimed first.
  select o.*, case when o.state = 1 then nextval('jobs.job_seq') end as seq
  from (select item.* from clock cross join item where state < 5 order by ahead, case when ahead then -ord else ord end) o
), back as (
  update jobs.job j
  set state = case when n.state = 3 then 3 when j.cancel then 7 else n.state end,
      lane = case when n.state = 3 then j.lane else j.lane / 2 * 2 + case when n.ahead then 0 else 1 end end,
      seq = case when n.ahead then -n.seq else coalesce(n.seq, j.seq) end,
      run_at = case when n.state = 4 and j.cancel is not true then (select now from clock) + n.delay end,
      worker = case when n.state = 3 then j.worker end, epoch = case when n.state = 3 then j.epoch else n.epoch + 1 end,
      deliveries = nullif(n.deliveries, 0), tail = case when n.tail is null then j.tail else nullif(n.tail, '') end,
      failures = case when j.cancel then j.failures else nullif(n.failures, 0) end,
      crashes = case when j.cancel then j.crashes else nullif(n.crashes, 0) end,
      snoozes = case when j.cancel then j.snoozes else nullif(n.snoozes, 0) end
  from turn n
  where j.queue = (select id from place) and j.id = any (array(select id from held))
    and j.id = n.id and coalesce(j.epoch, 0) = n.epoch and j.worker is not distinct from (select num from holder)
  -- A job that was asked to cancel is charged nothing.
  returning n.ord, n.id, j.state, j.key, j.shuts, octet_length(j.body) as size,
    case when j.state = 7 then 0 else n.charge end as charge, n.waited,
    n.ran
), kept as (
  insert into jobs.history (expires_at, day, finished_at, created_at, epoch, queue, deliveries, failures, crashes, snoozes, state, given,
    id, key, tail, body)
  select clock.now + e.keep, case when d.day = any (array(select day from jobs.history_day)) then d.day else 0 end,
         clock.now, e.created_at, e.epoch, place.id, e.deliveries, nullif(e.failures, 0), nullif(e.crashes, 0),
         nullif(e.snoozes, 0), e.state, e.given, e.id, e.key, nullif(e.tail, ''), e.body
  from clock, place, ended e
  -- Partitions are only for retentions of a day or more, in real time, and for queues without a limit of kept records.
  cross join lateral (
    select case when e.keep >= 86400000000 and @now::bigint is null and place.keep_completed_count = 0
      then ((clock.now + e.keep) / 86400000000)::int end as day) d
  where e.state <> 6 and e.keep > 0
), died as (
  insert into jobs.dead (died_at, created_at, epoch, retention, queue, deliveries, failures, crashes, snoozes, lane, given, head, id,
    key, unique_key, tail, body)
  select clock.now, e.created_at, e.epoch, e.retention, place.id, e.deliveries, nullif(e.failures, 0), nullif(e.crashes, 0),
         nullif(e.snoozes, 0), e.lane / 2 * 2 + 1, e.given,
         case when place.ordered = 1 then e.head end, e.id, e.key, e.unique_key, nullif(e.tail, ''), e.body
  from clock, place, ended e where e.state = 6
  -- If a dead job has this ID, a repeated sending of the enqueue stored it, and it died before the store applied the first sending.
  on conflict (id, queue) do nothing
  returning 1
), remembered as (
  insert into jobs.remembered (queue, id, until)
  select place.id, e.id, clock.now + place.duplicate_span from clock, place, ended e where e.given and e.state <> 6 and e.keep = 0
  on conflict (id, queue) do update set until = excluded.until, epoch = excluded.epoch, replaced = excluded.replaced
), {{freed}}, done as materialized (
  select ord, id, state, 0::bigint as keep, key, shuts, charge, waited, ran from back
  union all select ord, id, state, keep, key, shuts, charge, waited, ran from ended
), called as (
  insert into jobs.call (queue, key)
  -- A limit may be newer than what this statement sees of the queue. Then a claim has marked the job.
  select distinct place.id, d.key from place, done d
  where d.key is not null and (d.state = 1 or (place.opens % 2 = 1 or d.shuts) and d.state <> 3)
), counted as (
  insert into jobs.count_delta (queue, active, pending, retry, completed, dead, cancelled, bytes, done, failed, retried, died, crashed,
    dropped, expired, waits, waited, runs, ran)
  select (select id from place), -c.n, c.pending, c.retry, c.completed, c.dead, c.cancelled,
         coalesce((select sum(size) from back where state in (1, 4)), 0), nullif(c.done, 0), nullif(c.failed, 0), nullif(c.retried, 0),
         nullif(c.died, 0), nullif(c.crashed, 0), nullif(c.dropped, 0), nullif(c.expired, 0), nullif(c.waits, 0), c.waited,
         nullif(c.runs, 0), c.ran
  from (select count(*) as n, count(*) filter (where state = 1) as pending, count(*) filter (where state = 4) as retry,
          count(*) filter (where state = 5 and keep > 0) as completed, (select count(*) from died) as dead,
          count(*) filter (where state = 7 and keep > 0) as cancelled,
          count(*) filter (where state = 5) as done, count(*) filter (where state = 6) as died,
          count(*) filter (where state = 7) as dropped,
          count(*) filter (where charge & 1 > 0) as failed, count(*) filter (where charge & 2 > 0) as crashed,
          count(*) filter (where charge & 4 > 0) as retried, count(*) filter (where charge & 8 > 0) as expired,
          count(*) filter (where waited > 0) as waits, nullif(least(sum(waited), 4e18), 0) as waited,
          count(*) filter (where ran > 0) as runs, nullif(least(sum(ran), 4e18), 0) as ran
        from done where state <> 3) c
  where c.n > 0
), forgotten as (
  delete from jobs.settled
  where worker = (select num from holder) and number = (select number from last where number < @number)
), noted as (
  insert into jobs.settled (worker, number, verdicts)
  select num, @number, (select coalesce(array_agg((ord * 16 + state)::int), '{}') from done) from holder
  where numbered and not exists (select from last where number >= @number)
  on conflict do nothing
  returning 1
)
select greatest(place.watched_until, place.polled_until) > clock.real, (select number from last), (select verdicts from last),
       (select array_agg((ord * 16 + state)::int) from done),
       exists (select from holder where numbered) and not exists (select from last where number >= @number) and not exists (select
         from noted),
       place.opens > 0 or exists (select from done where shuts),
       set_config('jobs_settle.cancelled', (select count(*) from back where state = 7)::text, true)
         || case when @self::int is not null then coalesce(({{notified}}), '') else '' end
from clock, place
