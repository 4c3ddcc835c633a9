-- enqueue_plain.sql: store new jobs of one queue and wake, or fail when the ID of one stands in job already. For jobs whose
-- IDs are fresh and that are to run at once and leave nothing behind but when they die: what the server thought over until a
-- repeat of it had died is not stored again. One that dies at this very moment may be, since this is one statement.
-- Params: $1 now µs|null, $2 number of the queue, $3 its name, $4 also when the queue has a depth limit, $5 IDs, $6 lanes,
--   $7 bodies, $8 channel|null, $9 payload|null
-- Returns: one row, of no use; no row when the queue is not served so, or keeps records, or one of the jobs is dead
-- Called by: (*Broker).Enqueue
with stored as (
  insert into jobs.job (queue, id, state, lane, seq, created_at, body)
  select q.id, n.id, 1, n.lane, nextval('jobs.job_seq'), q.now, n.body
  from (
    -- Assigning the transaction's ID before any seq is what the scan floor relies on. As a column it would be left out.
    select id, coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
    from jobs.queue
    where id = $2 and name = $3 and layout <= 1 and not leaving and retain_age = 0 and (max_depth = 0 or $4) and pg_current_xact_id() is not null
      and not exists (select from jobs.dead where id = any ($5::text[]) and queue = $2)
    offset 0) q
  cross join unnest($5::text[], $6::smallint[], $7::bytea[]) as n(id, lane, body)
  returning 1
)
insert into jobs.count_delta (queue, pending) select $2, count(*) from stored having count(*) > 0
returning case when $8::text is not null then pg_notify($8, $9)::text end
