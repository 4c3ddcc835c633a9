-- prune_rest.sql: remove other rows of a queue that have lapsed: remembered IDs, unique windows, workers that ended a day ago,
-- keys whose rate has saved up a full burst. Let claims look again at keys that are kept back for longer than their rate says, since the
-- clock was set back.
-- Params: @now µs|null, @queue, @limit of each
-- Returns: one row: IDs, windows and workers, and keys
-- Called by: (*Broker).Prune
with {{clock}}, place as materialized (
  select id, policy, paused from jobs.queue where name = @queue and layout <= 1
), ids as (
  delete from jobs.remembered where ctid = any (array(
    select ctid from jobs.remembered where queue = (select id from place) and until <= (select now from clock)
    order by until limit @limit for update skip locked))
  returning 1
), windows as (
  delete from jobs.unique_key where ctid = any (array(
    select ctid from jobs.unique_key where queue = (select id from place) and mode = 2 and until <= (select now from clock)
    order by until limit @limit for update skip locked))
  returning 1
), workers as (
  delete from jobs.worker where ctid = any (array(
    select w.ctid from jobs.worker w
    where w.queue = (select id from place) and w.ended_at <= (select now from clock) - 86400000000
      and not exists (select from jobs.job j where j.worker = w.num)
    limit @limit for update skip locked))
  returning num
), keys as (
  delete from jobs.key where queue = (select id from place) and name = any (array(
    select name from jobs.key
    where queue = (select id from place) and blocked is null and until is not null and until <= (select now from clock)
      and pass is null and policy is null
    order by until limit @limit for update skip locked))
  returning 1
), late as materialized (
  select k.place
  from clock cross join place q
  cross join lateral (
    select *, ctid as place from jobs.key where queue = q.id and blocked is not null and until is not null and until > clock.now
    order by until desc limit @limit) k
  cross join lateral (select coalesce((k.policy->>'rate')::bigint, 0) > 0 as own offset 0) r
  cross join lateral (
    select k.at, k.used, coalesce((p.policy->>(p.prefix || 'rate'))::bigint, 0) as jobs,
           coalesce((p.policy->>(p.prefix || 'rate_per'))::bigint, 0) as per,
           coalesce((p.policy->>(p.prefix || 'rate_burst'))::bigint, 0) as burst, clock.now
    from (select case when r.own then k.policy else q.policy end as policy, case when r.own then '' else 'key_' end as prefix) p) b
  cross join lateral ({{bucket}}) f
  where not q.paused and k.blocked >= 0 and (f.free > 0 or f.next < k.until)
), unlocked as materialized (
  select ctid as place from jobs.key where ctid = any (array(select place from late)) and blocked is not null for no key update skip locked
), old as (
  -- As if they had been kept back under an older policy of the queue.
  update jobs.key set blocked = -1 where ctid = any (array(select place from unlocked))
), verdicts as (
  delete from jobs.settled where worker = any (array(select num from workers))
)
select (select count(*) from ids) + (select count(*) from windows) + (select count(*) from workers), (select count(*) from keys)
