-- flow_lock.sql: lock the keys whose turn it is, and the keys that the claim must look at: keys in table call, keys whose rate allows a
-- start again, and keys that were blocked under another policy. It skips keys that another claim has locked; their rows in call stay.
-- It locks nothing in a queue that is not served, is paused, or whose limits leave no room, or if the worker is not alive there. Limits
-- that this transaction has not read leave no room.
-- flow_take.sql reads the locked keys in a later snapshot, since what this snapshot shows may be older than the lock.
-- Params: @now µs|null, @worker, @queue, @limit of its share, @total limit of all shares, @turns how many keys
--   to lock for their turn, @calls how many to look at, of each kind (twice as many calls
--   if ends of leases call as well), @floor of the calls, @lock number of an advisory lock, to which that of the queue is added, for a
--   claim of several queues|null
-- Returns: one row: how many keys have their turn, how many others to look at, how many of these were skipped, nothing,
--   nothing
-- Called by: (*Broker).Claim
with share as materialized (
  select q.id as queue, w.num as worker, q.priority_round, q.changed, q.opens % 2 as opens,
         coalesce((q.policy->>'key_rate_per')::bigint, 0) as per, {{allowed}} as most
  from jobs.queue q
  cross join lateral (select num from jobs.worker where queue = q.id and id = @worker and ended_at is null limit 1 for key share) w
  where q.name = @queue and q.layout <= 1 and not q.paused
), calls as materialized (
  select n, key from jobs.call where queue = (select queue from share where most > 0) and n > @floor order by n
  limit (select @calls + @calls * opens from share) -- one row for each new job and, if ends of leases may make room, for each that ends
  for update skip locked
), again as materialized (
  select key, min(n) as n from calls group by key
  union all
  (select name, 0 from jobs.key where queue = (select queue from share where most > 0) and blocked is not null and until is not null
    and until <= {{now}} order by until limit @calls)
  union all
  (select name, 0 from jobs.key where queue = (select queue from share where most > 0) and blocked < (select changed from share)
    order by blocked limit @calls)
), known as materialized (
  select name from jobs.key where queue = (select queue from share) and name = any (array(select key from again))
), had as materialized (
  -- Their rate keeps those back that are held: they are looked at again at its time, so what calls them before is dropped.
  select name, ctid as place, coalesce(blocked >= (select changed from share)
           and until - {{now}}
             between 1 and (select per from share), false) as held
  from jobs.key where queue = (select queue from share) and name = any (array(select name from known))
  for no key update skip locked
), fresh as materialized (
  -- In the order of their rows in call, and no more keys than may get a turn.
  select key from again where key not in (select name from known) order by n limit @calls
), maker as materialized (
  -- Claims of several queues insert keys in the queues' order in each claim, so two of them could deadlock. One at a time inserts keys
  -- in a queue; another one skips the keys, as if they were locked.
  select case when @lock::bigint is null or not exists (select from fresh) then true
    else pg_try_advisory_xact_lock(@lock + (select queue from share)) end as may
), made as (
  -- In the order of their names, so that claims which insert the same keys do not deadlock.
  insert into jobs.key (queue, name)
  select (select queue from share), key from fresh where (select may from maker) order by key
  on conflict do nothing returning name, ctid as place
), room as materialized (
  select case when most > 0 then @turns::int else 0 end as most, priority_round from share
), turn_1 as materialized (
  select ctid as place from jobs.key where queue = (select queue from share) and pass[1] is not null
  order by pass[1], name limit (select most from room) for no key update skip locked
), turn_2 as materialized (
  select ctid as place from jobs.key where queue = (select queue from share) and pass[2] is not null order by pass[2], name
  limit (select case when priority_round > 0 then most else greatest(most - (select count(*) from turn_1), 0) end from room)
  for no key update skip locked
), turn_3 as materialized (
  select ctid as place from jobs.key where queue = (select queue from share) and pass[3] is not null order by pass[3], name
  limit (select case when priority_round > 0 then most else greatest(most - (select count(*) from turn_1)
    - (select count(*) from turn_2), 0) end from room)
  for no key update skip locked
), turn_4 as materialized (
  select ctid as place from jobs.key where queue = (select queue from share) and pass[4] is not null order by pass[4], name
  limit (select case when priority_round > 0 then most else greatest(most - (select count(*) from turn_1)
    - (select count(*) from turn_2) - (select count(*) from turn_3), 0) end from room)
  for no key update skip locked
), looked as materialized (
  select name, place, held from had union all select name, place, false from made
), heard as (
  delete from jobs.call where n = any (array(select c.n from calls c join looked l on l.name = c.key)) and queue = (select queue from share)
), locked as materialized (
  select place from looked where not held union select place from turn_1 union select place from turn_2 union select place from turn_3
  union select place from turn_4
)
select (select count(*) from turn_1) + (select count(*) from turn_2) + (select count(*) from turn_3) + (select count(*) from turn_4),
       (select count(*) from known) + (select count(*) from fresh),
       (select count(*) from known) + (select count(*) from fresh) - (select count(*) from looked),
       set_config('jobs_claim.share', coalesce((select queue || ':' || worker || ':' || most || ':'
         || coalesce(nullif(current_setting('jobs_claim.leased', true), ''), '0') from share), ''), true),
       set_config('jobs_claim.keys', coalesce((select array_agg(place)::text from locked), '{}'), true)
