-- settle_done.sql: do what settle.sql does, in half the time, for requests whose outcomes are all complete or cancel. Most are.
-- Params: @now µs|null, @queue, @worker, @number of the request, @ids, @epochs, @states to go to, @deliveries, @failures, @crashes,
--   @snoozes, @tails, @waited and @ran µs, 0 for what does not count, @times over all items: how many have waited, how long, how many
--   have run, how long
-- Returns: as settle.sql
-- Called by: (*Broker).Settle, (*Broker).Claim
with place as materialized (
  select id, keep_completed, keep_completed_count, {{duplicate_span}} as duplicate_span,
         greatest(watched_until, polled_until) > {{store_time}} as watched,
         {{now}} as now, opens
  from jobs.queue where name = @queue and layout <= 1
), holder as materialized (
  select w.num, w.ended_at is null as numbered, s.number, s.verdicts
  from (select num, ended_at from jobs.worker where queue = (select id from place) and id = @worker) w
  left join lateral (
    select number, verdicts from jobs.settled where worker = w.num and w.ended_at is null order by number desc limit 1) s on true
), item as materialized (
  select n.*
  from unnest(@ids::text[], @epochs::bigint[], @states::smallint[]) with ordinality as n(id, epoch, state, ord)
  where exists (select from holder where number is null or number < @number::bigint)
), ended as (
  delete from jobs.job j using item n
  where j.queue = (select id from place) and j.id = any (array(select id from item))
    and j.id = n.id and coalesce(j.epoch, 0) = n.epoch and j.worker is not distinct from (select num from holder)
  returning n.ord, j.id, n.state, coalesce(j.retention, (select keep_completed from place)) as keep, j.given, j.unique_key, j.key,
    j.shuts, j.created_at, n.epoch + 1 as epoch,
    case when coalesce(j.retention, (select keep_completed from place)) > 0 then j.body end as body
), kept as (
  insert into jobs.history (expires_at, day, finished_at, created_at, epoch, queue, deliveries, failures, crashes, snoozes, state, given,
    id, key, tail, body)
  select p.now + e.keep, case when d.day = any (array(select day from jobs.history_day)) then d.day else 0 end,
         p.now, e.created_at, e.epoch, p.id, h.deliveries, nullif(h.failures, 0), nullif(h.crashes, 0),
         nullif(h.snoozes, 0), e.state, e.given, e.id, e.key, nullif(h.tail, ''), e.body
  from place p cross join ended e
  -- Only for jobs that leave a record. Most leave none, and then these columns are not read.
  join unnest(@deliveries::int[], @failures::int[], @crashes::int[], @snoozes::int[], @tails::bytea[])
    with ordinality as h(deliveries, failures, crashes, snoozes, tail, ord) on h.ord = e.ord
  -- Partitions are only for retentions of a day or more, in real time, and for queues without a limit of kept records.
  cross join lateral (
    select case when e.keep >= 86400000000 and @now::bigint is null and p.keep_completed_count = 0
      then ((p.now + e.keep) / 86400000000)::int end as day) d
  where e.keep > 0
), remembered as (
  insert into jobs.remembered (queue, id, until)
  select p.id, e.id, p.now + p.duplicate_span from place p, ended e where e.given and e.keep = 0
  on conflict (id, queue) do update set until = excluded.until, epoch = excluded.epoch, replaced = excluded.replaced
), {{freed}}, called as (
  insert into jobs.call (queue, key)
  select distinct p.id, e.key from place p, ended e where e.key is not null and e.shuts
), counted as (
  insert into jobs.count_delta (queue, active, completed, cancelled, done, dropped, waits, waited, runs, ran)
  select (select id from place), -e.n, e.completed, e.cancelled, e.done, nullif(e.dropped, 0), nullif(t.times[1], 0),
         nullif(t.times[2], 0), nullif(t.times[3], 0), nullif(t.times[4], 0)
  from (select count(*) as n, count(*) filter (where state = 5 and keep > 0) as completed,
               count(*) filter (where state = 7 and keep > 0) as cancelled, count(*) filter (where state = 5) as done,
               count(*) filter (where state = 7) as dropped from ended) e
  cross join lateral (
    -- Items that were not applied must not count. If there are any, add up the others.
    select case when e.n = cardinality(@ids::text[]) then @times::bigint[] else (
      select array[count(*) filter (where i.waited > 0), least(sum(i.waited), 4e18)::bigint, count(*) filter (where i.ran > 0),
                   least(sum(i.ran), 4e18)::bigint]
      from unnest(@waited::bigint[], @ran::bigint[]) with ordinality as i(waited, ran, ord)
      where i.ord in (select ord from ended)) end as times) t
  where e.n > 0
), forgotten as (
  delete from jobs.settled where worker = (select num from holder) and number = (select number from holder where number < @number)
), noted as (
  insert into jobs.settled (worker, number, verdicts)
  select num, @number, (select coalesce(array_agg((ord * 16 + state)::int), '{}') from ended) from holder
  where numbered and (number is null or number < @number)
  on conflict do nothing
  returning 1
)
select p.watched, h.number, h.verdicts, (select array_agg((ord * 16 + state)::int) from ended),
       coalesce(h.numbered and (h.number is null or h.number < @number), false) and not exists (select from noted),
       p.opens > 0 or exists (select from ended where shuts)
from place p left join holder h on true
