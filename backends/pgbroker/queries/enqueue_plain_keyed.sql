-- enqueue_plain_keyed.sql: store new jobs, some of which have a key, as enqueue_plain.sql does, and make claims look at the keys.
-- Params: @now µs|null, @queue, @limited true if the limits of its policy were checked, @ids, @lanes, @bodies, @keys '' for none,
--   @self|null and @payload as in wake.sql
-- Returns: as enqueue_plain.sql; also no row when the queue is not known to have jobs with keys
-- Called by: (*Broker).Enqueue
with stored as (
  insert into jobs.job (queue, id, state, lane, seq, created_at, key, body)
  select q.id, n.id, 1, n.lane, nextval('jobs.job_seq'), q.now, nullif(n.key, ''), n.body
  from (
    -- The transaction must get its ID before it takes a seq: the scan floor needs that. An unused column would not be evaluated.
    select q.id, {{now}} as now
    from jobs.queue q
    where name = @queue and layout <= 1 and not leaving and keyed and keep_completed = 0 and (not bounded or @limited)
      and pg_current_xact_id() is not null
      and not exists (select from jobs.dead d where d.id = any (@ids::text[]) and d.queue = q.id)
    offset 0) q
  cross join unnest(@ids::text[], @lanes::smallint[], @bodies::bytea[], @keys::text[]) as n(id, lane, body, key)
  returning queue, key, octet_length(body) as size
), called as (
  insert into jobs.call (queue, key) select distinct queue, key from stored where key is not null
)
insert into jobs.count_delta (queue, pending, bytes, enqueued)
select queue, count(*), sum(size), count(*) from stored group by queue
returning case when @self::int is not null then ({{notified}}) end
