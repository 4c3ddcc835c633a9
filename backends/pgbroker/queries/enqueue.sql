-- enqueue.sql: store new jobs of one queue, of any kind, if their IDs are free in job and their unique keys were taken. It stores
-- them in the order of their IDs, so that batches that share IDs do not deadlock; their seqs follow the order of the batch.
-- Params: @now µs|null, @queue, @limited true if the limits of its policy were checked, @ids, @lanes, @bodies, @run_at run times µs|null,
--   @delays µs|null, @retentions µs|null, @given|null, @keys|null, @unique_keys|null, @token of the keys that were taken|null; in these
--   arrays 0 and '' mean none
-- Returns: one row: now, whether the queue keeps records|null when it is not served, the IDs stored or null when all were, the IDs of
--   jobs whose unique keys were not taken|null
-- Called by: (*Broker).Enqueue, in one transaction before enqueue_seal.sql
with clock as materialized (
  -- The transaction must get its ID before it takes a seq: the scan floor needs that.
  select coalesce(@now::bigint, case when @token::bigint is not null then nullif(current_setting('jobs_enqueue.now', true), '')::bigint end,
                  {{store_time}}) as now, pg_current_xact_id() as xid
), place as materialized (
  select id, keep_completed from jobs.queue
  where name = @queue and layout <= 1 and not leaving and (not bounded or @limited) and (keyed or @keys::text[] is null)
), taken as materialized (
  -- Look the keys up here, once: a test for each job would make the plan scan all keys.
  select key from jobs.unique_key
  where @token::bigint is not null and queue = (select id from place) and key = any (@unique_keys::text[]) and token = @token
), turn as materialized (
  select place.id as queue, n.*, clock.now, coalesce(nullif(n.run_at, 0), clock.now + n.delay) as due, nextval('jobs.job_seq') as seq
  from clock cross join place
  cross join unnest(@ids::text[], @lanes::smallint[], @bodies::bytea[], @run_at::bigint[], @delays::bigint[], @retentions::bigint[],
    @given::boolean[], @keys::text[], @unique_keys::text[])
    as n(id, lane, body, run_at, delay, retention, given, key, unique_key)
  where n.unique_key is null or n.unique_key = '' or n.unique_key in (select key from taken)
), stored as (
  insert into jobs.job (queue, id, state, lane, seq, created_at, run_at, retention, given, key, unique_key, body)
  select queue, id, case when due > now then 2 else 1 end, lane, seq, now, case when due > now then due end,
         nullif(retention, 0), nullif(given, false), nullif(key, ''), nullif(unique_key, ''), body
  from turn order by id collate "C"
  on conflict (id, queue) do nothing
  returning id, state, key, octet_length(body) as size
), freed as (
  delete from jobs.unique_key u
  where @token is not null and u.queue = (select id from jobs.queue where name = @queue) and u.key = any (@unique_keys) and u.token = @token
    and not exists (select from stored s where s.id = u.job)
), called as (
  insert into jobs.call (queue, key)
  select place.id, s.key from place, (select distinct key from stored where state = 1 and key is not null) s
), counted as (
  insert into jobs.count_delta (queue, pending, scheduled, bytes, enqueued)
  select place.id, c.pending, c.scheduled, c.bytes, c.pending + c.scheduled
  from place, (select count(*) filter (where state = 1) as pending, count(*) filter (where state = 2) as scheduled,
                 coalesce(sum(size), 0) as bytes from stored) c
  where c.pending + c.scheduled > 0
)
select clock.now, (select keep_completed > 0 from place),
       case when (select count(*) from stored) < cardinality(@ids::text[]) then array(select id from stored) end,
       case when @token is not null then array(
         select n.id from place, unnest(@ids::text[], @unique_keys::text[]) as n(id, unique_key)
         where n.unique_key <> '' and n.unique_key not in (select key from taken)) end
from clock
