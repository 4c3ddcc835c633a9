-- restore.sql: store jobs of one queue that were elsewhere before, whose IDs are free in job, and whose unique keys were
-- taken. Those that ended stand in job, too, until restore_end.sql: their IDs are locked by it. They go in by
-- their IDs, like those of enqueue.sql.
-- Params: $1 now µs|null, $2 queue, $3 also when the queue has a depth limit, $4 IDs, $5 states, $6 lanes, $7 bodies,
--   $8 run times µs|null, $9 delays µs|null, $10 retentions µs|null, $11 given|null, $12 keys|null, $13 unique keys|null,
--   $14 those of them to take|null, $15 token of the keys that were taken|null, $16 epochs there, $17 creation times µs,
--   $18 deliveries, $19 failures, $20 crashes, $21 snoozes, $22 tails; in these arrays 0 and '' mean none
-- Returns: one row: now, whether the queue is served, the IDs stored, the IDs of jobs whose unique keys were not taken
-- Called by: (*Broker).Enqueue, in one transaction before restore_look.sql
with clock as materialized (
  -- Assigning the transaction's ID before any seq is what the scan floor relies on.
  select coalesce($1::bigint, case when $15::bigint is not null then nullif(current_setting('jobs_enqueue.now', true), '')::bigint end,
                  (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now, pg_current_xact_id() as xid
), place as materialized (
  select id from jobs.queue where name = $2 and layout <= 1 and not leaving and (max_depth = 0 or $3)
), taken as materialized (
  select key from jobs.unique_key
  where $15::bigint is not null and queue = (select id from place) and key = any ($14::text[]) and token = $15
), turn as materialized (
  select place.id as queue, n.*, clock.now, coalesce(nullif(n.run_at, 0), clock.now + n.delay) as due, nextval('jobs.job_seq') as seq
  from clock cross join place
  cross join unnest($4::text[], $5::smallint[], $6::smallint[], $7::bytea[], $8::bigint[], $9::bigint[], $10::bigint[], $11::boolean[],
                    $12::text[], $13::text[], $14::text[], $16::bigint[], $17::bigint[], $18::int[], $19::int[], $20::int[], $21::int[], $22::bytea[])
    as n(id, state, lane, body, run_at, delay, retention, given, key, unique_key, take, epoch, created, deliveries, failures, crashes, snoozes, tail)
  where n.take is null or n.take = '' or n.take in (select key from taken)
), stored as (
  insert into jobs.job (queue, id, state, lane, seq, created_at, run_at, epoch, retention, deliveries, failures, crashes, snoozes,
                        given, key, unique_key, tail, body)
  select queue, id, case when state > 2 then state when due > now then 2 else 1 end, lane, seq, coalesce(nullif(created, 0), now),
         case when state = 4 then coalesce(due, now) when state <= 2 and due > now then due end,
         epoch + 1, nullif(retention, 0), nullif(deliveries, 0), nullif(failures, 0), nullif(crashes, 0),
         nullif(snoozes, 0), nullif(given, false), nullif(key, ''), nullif(unique_key, ''), nullif(tail, ''), body
  from turn order by id collate "C"
  on conflict (id, queue) do nothing
  returning id
), freed as (
  delete from jobs.unique_key u
  where $15 is not null and u.queue = (select id from jobs.queue where name = $2) and u.key = any ($14) and u.token = $15
    and not exists (select from stored s where s.id = u.job)
)
select clock.now, exists (select from place), array(select id from stored),
       array(select n.id from place, unnest($4::text[], $14::text[]) as n(id, take) where n.take <> '' and n.take not in (select key from taken))
from clock
