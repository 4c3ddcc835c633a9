-- restore.sql: store jobs of one queue from another store, if their IDs are free in job and their unique keys were taken. Jobs that have
-- ended are also stored in job, which locks their IDs, until restore_end.sql moves them. The jobs are stored in the order of their IDs, as
-- in enqueue.sql.
-- Params: @now µs|null, @queue, @limited true if the limits of its policy were checked, @ids, @states, @lanes, @bodies, @run_at run times
--   µs|null, @delays µs|null, @retentions µs|null, @given|null, @keys|null, @unique_keys|null, @take those of them to take|null, @token
--   of the keys that were taken|null, @epochs in the other store, @created creation times µs, @deliveries, @failures, @crashes,
--   @snoozes, @tails; in these arrays 0 and '' mean none
-- Returns: one row: now, whether the queue is served, the IDs stored, the IDs of jobs whose unique keys were not taken
-- Called by: (*Broker).Enqueue, in one transaction before enqueue_known.sql
with clock as materialized (
  -- The transaction must get its ID before it takes a seq: the scan floor needs that.
  select coalesce(@now::bigint, case when @token::bigint is not null then nullif(current_setting('jobs_enqueue.now', true), '')::bigint end,
                  {{store_time}}) as now, pg_current_xact_id() as xid
), place as materialized (
  select id from jobs.queue
  where name = @queue and layout <= 1 and not leaving and (not bounded or @limited) and (keyed or @keys::text[] is null)
), taken as materialized (
  select key from jobs.unique_key
  where @token::bigint is not null and queue = (select id from place) and key = any (@take::text[]) and token = @token
), turn as materialized (
  select place.id as queue, n.*, clock.now, coalesce(nullif(n.run_at, 0), clock.now + n.delay) as due, nextval('jobs.job_seq') as seq
  from clock cross join place
  cross join unnest(@ids::text[], @states::smallint[], @lanes::smallint[], @bodies::bytea[], @run_at::bigint[], @delays::bigint[],
    @retentions::bigint[], @given::boolean[],
                    @keys::text[], @unique_keys::text[], @take::text[], @epochs::bigint[], @created::bigint[], @deliveries::int[],
                      @failures::int[], @crashes::int[], @snoozes::int[], @tails::bytea[])
    as n(id, state, lane, body, run_at, delay, retention, given, key, unique_key, take, epoch, created, deliveries, failures, crashes,
      snoozes, tail)
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
  where @token is not null and u.queue = (select id from jobs.queue where name = @queue) and u.key = any (@take) and u.token = @token
    and not exists (select from stored s where s.id = u.job)
)
select clock.now, exists (select from place), array(select id from stored),
       array(select n.id from place, unnest(@ids::text[], @take::text[]) as n(id, take) where n.take <> ''
         and n.take not in (select key from taken))
from clock
