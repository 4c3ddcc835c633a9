-- settle_alive.sql: settle.sql for jobs that all live on, behind those that are pending: retried and snoozed ones. There is one
-- write, which takes its locks in the order of the IDs, as its index has them, so that none are taken before it.
-- Params: $1 now µs|null, $2 queue, $3 worker, $4 number of the request, $5 IDs, $6 epochs, $7 delays µs|null, 0 for none,
--   $8 deliveries, $9 failures|null, $10 crashes|null, $11 snoozes|null, $12 tails|null; in these arrays 0 and '' mean none
--   $13 channel|null: wakes claims, $14 payload
-- Returns: as settle.sql
-- Called by: (*Broker).Settle, (*Broker).Claim
with place as materialized (
  -- Assigning the transaction's ID before any seq is what the scan floor relies on. As a column it would be left out.
  select id, coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now,
         greatest(watched_until, polled_until) > (extract(epoch from statement_timestamp()) * 1000000)::bigint as watched
  from jobs.queue where name = $2 and layout <= 1 and pg_current_xact_id() is not null
), holder as materialized (
  select w.num, w.ended_at is null as numbered, s.number, s.verdicts
  from (select num, ended_at from jobs.worker where queue = (select id from place) and id = $3) w
  left join lateral (
    select number, verdicts from jobs.settled where worker = w.num and w.ended_at is null order by number desc limit 1) s on true
), back as (
  update jobs.job j
  set state = case when j.cancel then 7 when n.delay > 0 then 4 else 1 end,
      lane = j.lane / 2 * 2 + 1,
      seq = coalesce(n.seq, j.seq),
      run_at = case when n.delay > 0 and j.cancel is not true then (select now from place) + n.delay end,
      worker = null, epoch = n.epoch + 1, deliveries = n.deliveries, tail = nullif(n.tail, ''),
      failures = case when j.cancel then j.failures else nullif(n.failures, 0) end,
      crashes = case when j.cancel then j.crashes else nullif(n.crashes, 0) end,
      snoozes = case when j.cancel then j.snoozes else nullif(n.snoozes, 0) end
  from (
    select n.*, case when n.delay > 0 then null else nextval('jobs.job_seq') end as seq
    from unnest($5::text[], $6::bigint[], $7::bigint[], $8::int[], $9::int[], $10::int[], $11::int[], $12::bytea[])
      with ordinality as n(id, epoch, delay, deliveries, failures, crashes, snoozes, tail, ord)
    where exists (select from holder where number is null or number < $4::bigint)
    offset 0) n
  where j.queue = (select id from place) and j.id = any ($5)
    and j.id = n.id and coalesce(j.epoch, 0) = n.epoch and j.worker is not distinct from (select num from holder)
  returning n.ord, j.state
), counted as (
  insert into jobs.count_delta (queue, active, pending, retry)
  select (select id from place), -count(*), count(*) filter (where state = 1), count(*) filter (where state = 4) from back having count(*) > 0
), verdict as materialized (
  select array_agg((ord * 16 + state)::int) as verdicts from back
), forgotten as (
  delete from jobs.settled where worker = (select num from holder where numbered) and number = (select number from holder where number < $4)
), noted as (
  insert into jobs.settled (worker, number, verdicts)
  select h.num, $4, coalesce(v.verdicts, '{}') from holder h cross join verdict v
  where h.numbered and (h.number is null or h.number < $4)
  on conflict do nothing
  returning 1
)
select p.watched, h.number, h.verdicts, (select verdicts from verdict),
       coalesce(h.numbered and (h.number is null or h.number < $4), false) and not exists (select from noted),
       set_config('jobs_settle.cancelled', (select count(*) from back where state = 7)::text, true)
         || case when $13::text is not null then pg_notify($13, $14)::text else '' end
from place p left join holder h on true
