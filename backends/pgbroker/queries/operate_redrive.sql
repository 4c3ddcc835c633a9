-- operate_redrive.sql: send dead jobs back to their queue, except those whose unique key was not taken again.
-- Params: $1 queue, $2 IDs, all of them locked, $3 tails, $4 unique keys to hold, '' for none, $5 token of the keys taken,
--   $6 channel, $7 payload
-- Returns: one row: the IDs sent back, nothing
-- Called by: (*Broker).Operate, in one transaction after enqueue_keys.sql
with place as materialized (
  select id from jobs.queue where name = $1
), back as (
  delete from jobs.dead d using unnest($2::text[], $3::bytea[], $4::text[]) with ordinality as n(id, tail, key, ord)
  where d.queue = (select id from place) and d.id = any ($2) and d.id = n.id
    and (n.key = '' or exists (select from jobs.unique_key u where u.queue = d.queue and u.key = n.key and u.token = $5))
  returning d.*, n.tail as new_tail, n.ord
), stored as (
  insert into jobs.job (seq, created_at, epoch, retention, queue, deliveries, state, lane, given, id, key, unique_key, tail, body)
  select nextval('jobs.job_seq'), created_at, epoch + 1, retention, queue, deliveries, 1, lane, given, id, key, unique_key, nullif(new_tail, ''), body
  from (select * from back order by ord) b
), counted as (
  insert into jobs.count_delta (queue, dead, pending) select queue, -count(*), count(*) from back group by queue
), listed as (
  update jobs.count_total set suppressed = suppressed - (select count(*) from back where suppressed)
  where queue = (select id from place) and exists (select from back where suppressed)
)
select array(select id from back), pg_notify($6, $7)::text
