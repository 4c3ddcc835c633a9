-- enqueue_plain.sql: store new jobs of one queue and wake a claim, or fail if an ID is already in job. This is the fast path, for jobs
-- with new IDs that are due at once and leave no record unless they die. If a repeated sending of the request was applied before, and its
-- job is dead, this stores nothing. If the job dies at the same moment, it may be stored again, since this statement has one snapshot.
-- Params: @now µs|null, @queue, @limited true if the limits of its policy were checked, @ids, @lanes, @bodies, @self|null and @payload
--   as in wake.sql
-- Returns: one row, which is ignored; no row when the queue is not served, or keeps records, or one of the jobs is dead
-- Called by: (*Broker).Enqueue
with stored as (
  insert into jobs.job (queue, id, state, lane, seq, created_at, body)
  select q.id, n.id, 1, n.lane, nextval('jobs.job_seq'), q.now, n.body
  from (
    -- The transaction must get its ID before it takes a seq: the scan floor needs that. An unused column would not be evaluated.
    select q.id, {{now}} as now
    from jobs.queue q
    where name = @queue and layout <= 1 and not leaving and keep_completed = 0 and (not bounded or @limited)
      and pg_current_xact_id() is not null
      and not exists (select from jobs.dead d where d.id = any (@ids::text[]) and d.queue = q.id)
    offset 0) q
  cross join unnest(@ids::text[], @lanes::smallint[], @bodies::bytea[]) as n(id, lane, body)
  returning queue, octet_length(body) as size
)
insert into jobs.count_delta (queue, pending, bytes, enqueued)
select queue, count(*), sum(size), count(*) from stored group by queue
returning case when @self::int is not null then ({{notified}}) end
