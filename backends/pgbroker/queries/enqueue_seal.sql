-- enqueue_seal.sql: fail when new jobs have a record elsewhere, and wake.
-- A second statement, because its snapshot shows jobs that ended while the first waited for their IDs.
-- Params: $1 now µs|null, $2 number of the queue, $3 IDs, $4 channel|null, $5 payload|null
-- Returns: one row, of no use. It fails with 22P02, because what it says of an ID is no number
-- Called by: (*Broker).Enqueue, in one transaction after enqueue.sql
select (select ('a record exists: ' || id)::int from (
    select id from jobs.dead where id = any ($3::text[]) and queue = $2
    union all
    select id from jobs.history where id = any ($3::text[]) and queue = $2
    union all
    select id from jobs.remembered where id = any ($3::text[]) and queue = $2
      and until > coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)) known
  limit 1),
  case when $4::text is not null then pg_notify($4, $5)::text end
