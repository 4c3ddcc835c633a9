-- operate_redrive.sql: send dead jobs back to their queue, except those whose unique key could not be taken again.
-- Params: @queue, @ids, all of them locked, @tails, @unique_keys to hold, '' for none, @token of the keys taken, @self and
--   @payload as in wake.sql
-- Returns: one row: the IDs sent back, nothing
-- Called by: (*Broker).Operate, in one transaction after enqueue_keys.sql
with place as materialized (
  select id, ordered from jobs.queue where name = @queue
), back as (
  delete from jobs.dead d using unnest(@ids::text[], @tails::bytea[], @unique_keys::text[]) with ordinality as n(id, tail, key, ord)
  where d.queue = (select id from place) and d.id = any (@ids) and d.id = n.id
    and (n.key = '' or exists (select from jobs.unique_key u where u.queue = d.queue and u.key = n.key and u.token = @token))
  returning d.*, n.tail as new_tail, n.ord
), stored as (
  insert into jobs.job (seq, created_at, epoch, retention, queue, deliveries, state, lane, given, head, id, key, unique_key, tail, body)
  select nextval('jobs.job_seq'), created_at, epoch + 1, retention, queue, deliveries, 1, lane, given,
    case when (select ordered from place) = 1 then head end, id, key, unique_key,
    nullif(new_tail, ''), body
  from (select * from back order by ord) b
), called as (
  insert into jobs.call (queue, key) select distinct queue, key from back where key is not null
), counted as (
  insert into jobs.count_delta (queue, dead, pending, bytes)
  select queue, -count(*), count(*), sum(octet_length(body)) from back group by queue
), listed as (
  update jobs.count_total set suppressed = suppressed - (select count(*) from back where suppressed)
  where queue = (select id from place) and exists (select from back where suppressed)
)
select array(select id from back), ({{notified}})
