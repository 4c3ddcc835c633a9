-- enqueue.sql: store new jobs of one queue, without unique keys, or fail when the ID of one stands in job already.
-- It does not ask "on conflict": that would cost a second look at the index, a lock and a log record for each job.
-- It also sets that the statement after it is planned once, and by index only, like settings.sql.
-- Params: $1 now µs|null, $2 number of the queue, $3 its name, $4 also when the queue has a depth limit, $5 IDs, $6 lanes,
--   $7 bodies, $8 run times µs|null, $9 delays µs|null, $10 retentions µs|null, $11 keys|null; in these arrays 0 and '' mean none
-- Returns: no row when the queue is not served so; else one: now, nothing
-- Called by: (*Broker).Enqueue, in one transaction before enqueue_seal.sql
with stored as (
  insert into jobs.job (queue, id, state, lane, seq, created_at, run_at, retention, key, body)
  select q.id, n.id, case when d.due > q.now then 2 else 1 end, n.lane, nextval('jobs.job_seq'), q.now,
         case when d.due > q.now then d.due end, nullif(n.retention, 0), nullif(n.key, ''), n.body
  from (
    -- Assigning the transaction's ID before any seq is what the scan floor relies on. As a column it would be left out.
    select id, coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
    from jobs.queue where id = $2 and name = $3 and layout <= 1 and not leaving and (max_depth = 0 or $4) and pg_current_xact_id() is not null
    offset 0) q
  cross join unnest($5::text[], $6::smallint[], $7::bytea[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[])
    as n(id, lane, body, run_at, delay, retention, key)
  cross join lateral (select coalesce(nullif(n.run_at, 0), q.now + n.delay) as due) d
  returning state, created_at
)
insert into jobs.count_delta (queue, pending, scheduled)
select $2, count(*) filter (where state = 1), count(*) filter (where state = 2) from stored having count(*) > 0
returning (select created_at from stored limit 1),
          set_config('enable_seqscan', 'off', true) || set_config('plan_cache_mode', 'force_generic_plan', true)
