-- settle_plain.sql: settle_done.sql for jobs that leave nothing behind and free nothing: none has a unique key, a retention or
-- an ID of its caller, and the queue keeps no records. Half of what a small settle costs is making its plan ready to run.
-- Params: $1 queue, $2 worker, $3 number of the request, $4 IDs, $5 epochs, $6 states to go to
-- Returns: as settle.sql, and then whether the queue keeps records: if so, nothing was settled
-- Called by: (*Broker).Settle, (*Broker).Claim
with place as materialized (
  select id, retain_age > 0 as keeps,
         greatest(watched_until, polled_until) > (extract(epoch from statement_timestamp()) * 1000000)::bigint as watched
  from jobs.queue where name = $1 and layout <= 1
), holder as materialized (
  select w.num, w.ended_at is null and not (select keeps from place) as numbered, s.number, s.verdicts
  from (select num, ended_at from jobs.worker where queue = (select id from place) and id = $2) w
  left join lateral (
    select number, verdicts from jobs.settled where worker = w.num and w.ended_at is null order by number desc limit 1) s on true
), ended as (
  delete from jobs.job j using unnest($4::text[], $5::bigint[]) with ordinality as n(id, epoch, ord)
  where exists (select from holder where number is null or number < $3::bigint) and not (select keeps from place)
    and j.queue = (select id from place) and j.id = any ($4)
    and j.id = n.id and coalesce(j.epoch, 0) = n.epoch and j.worker is not distinct from (select num from holder)
  returning n.ord
), counted as (
  insert into jobs.count_delta (queue, active) select (select id from place), -count(*) from ended having count(*) > 0
), verdict as materialized (
  select array_agg((ord * 16 + ($6::smallint[])[ord])::int) as verdicts from ended
), forgotten as (
  delete from jobs.settled where worker = (select num from holder where numbered) and number = (select number from holder where number < $3)
), noted as (
  insert into jobs.settled (worker, number, verdicts)
  select h.num, $3, coalesce(v.verdicts, '{}') from holder h cross join verdict v
  where h.numbered and (h.number is null or h.number < $3)
  on conflict do nothing
  returning 1
)
select p.watched, h.number, h.verdicts, (select verdicts from verdict),
       coalesce(h.numbered and (h.number is null or h.number < $3), false) and not exists (select from noted), p.keeps
from place p left join holder h on true
