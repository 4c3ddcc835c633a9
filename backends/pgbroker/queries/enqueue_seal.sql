-- enqueue_seal.sql: take back new jobs whose IDs have a record elsewhere, and wake.
-- A second statement, because its snapshot shows jobs that ended while the first waited for their IDs.
-- Params: $1 now µs|null, $2 number of the queue, $3 IDs, $4 channel|null, $5 payload|null
-- Returns: one row per job taken back: its ID; perhaps one more: null
-- Called by: (*Broker).Enqueue, in one transaction after enqueue.sql
with undone as (
  delete from jobs.job
  where id = any (array(
      select id from jobs.dead where id = any ($3::text[]) and queue = $2
      union all
      select id from jobs.history where id = any ($3::text[]) and queue = $2
      union all
      select id from jobs.remembered where id = any ($3::text[]) and queue = $2
        and until > coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)))
    and queue = $2 and xmin = pg_current_xact_id()::xid
  returning id, state
), counted as (
  insert into jobs.count_delta (queue, pending, scheduled)
  select $2, -count(*) filter (where state = 1), -count(*) filter (where state = 2) from undone having count(*) > 0
)
select id from undone
union all
select null from pg_notify($4, $5) where $4::text is not null
