-- restore.sql: store jobs of one queue that were elsewhere before, whose IDs are free in job, and whose unique keys were
-- taken. Those that ended stand in job, too, until restore_end.sql: their IDs are locked by it.
-- Params: $1 now µs|null, $2 queue, $3 also when the queue has a depth limit, $4 IDs, $5 states, $6 lanes, $7 bodies,
--   $8 run times µs|null, $9 delays µs|null, $10 retentions µs|null, $11 given|null, $12 keys|null, $13 unique keys|null,
--   $14 those of them to take|null, $15 token of the keys that were taken|null, $16 epochs there, $17 creation times µs,
--   $18 deliveries, $19 failures, $20 crashes, $21 snoozes, $22 tails; in these arrays 0 and '' mean none
-- Returns: one row: now, whether the queue is served, the IDs stored, the IDs of jobs whose unique keys were not taken
-- Called by: (*Broker).Enqueue, in one transaction before restore_look.sql
with clock as materialized (
  -- Assigning the transaction's ID before any seq is what the scan floor relies on.
  select coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now, pg_current_xact_id() as xid
), place as materialized (
  select id from jobs.queue where name = $2 and layout <= 1 and (max_depth = 0 or $3)
), taken as materialized (
  select key from jobs.unique_key
  where $15::bigint is not null and queue = (select id from place) and key = any ($14::text[]) and token = $15
), stored as (
  insert into jobs.job (queue, id, state, lane, seq, created_at, run_at, epoch, retention, deliveries, failures, crashes, snoozes,
                        given, key, unique_key, tail, body)
  select place.id, n.id, case when n.state > 2 then n.state when d.due > clock.now then 2 else 1 end, n.lane,
         nextval('jobs.job_seq'), coalesce(nullif(n.created, 0), clock.now),
         case when n.state = 4 then coalesce(d.due, clock.now) when n.state <= 2 and d.due > clock.now then d.due end,
         n.epoch + 1, nullif(n.retention, 0), nullif(n.deliveries, 0), nullif(n.failures, 0), nullif(n.crashes, 0),
         nullif(n.snoozes, 0), nullif(n.given, false), nullif(n.key, ''), nullif(n.unique_key, ''), nullif(n.tail, ''), n.body
  from clock cross join place
  cross join unnest($4::text[], $5::smallint[], $6::smallint[], $7::bytea[], $8::bigint[], $9::bigint[], $10::bigint[], $11::boolean[],
                    $12::text[], $13::text[], $14::text[], $16::bigint[], $17::bigint[], $18::int[], $19::int[], $20::int[], $21::int[], $22::bytea[])
    as n(id, state, lane, body, run_at, delay, retention, given, key, unique_key, take, epoch, created, deliveries, failures, crashes, snoozes, tail)
  cross join lateral (select coalesce(nullif(n.run_at, 0), clock.now + n.delay) as due) d
  where n.take is null or n.take = '' or n.take in (select key from taken)
  on conflict (id, queue) do nothing
  returning id
), freed as (
  delete from jobs.unique_key u
  where $15 is not null and u.queue = (select id from place) and u.key = any ($14) and u.token = $15
    and not exists (select from stored s where s.id = u.job)
)
select clock.now, exists (select from place), array(select id from stored),
       array(select n.id from place, unnest($4::text[], $14::text[]) as n(id, take) where n.take <> '' and n.take not in (select key from taken))
from clock
