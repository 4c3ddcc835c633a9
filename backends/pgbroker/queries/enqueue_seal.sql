-- enqueue_seal.sql: remove the new jobs whose IDs have a record in another table, read which jobs hold unique keys, and wake a claim.
-- It is a second statement because its snapshot shows jobs that ended while the first one waited for their IDs.
-- Params: @now µs|null, @queue, @ids, @stored those that were stored|null: those whose rows this transaction wrote, @unique_keys, ''
--   for none|null, @token|null, @self|null and @payload as in wake.sql
-- Returns: one row per refused job: ID, whether the ID has a record, holder of its unique key|null
-- Called by: (*Broker).Enqueue, in one transaction after enqueue.sql
with {{clock}}, {{place}}, known as materialized (
  select id from jobs.dead where queue = (select id from place) and id = any (@ids::text[])
  union all
  select id from jobs.history where queue = (select id from place) and id = any (@ids::text[])
  union all
  select id from jobs.remembered
  where queue = (select id from place) and id = any (@ids::text[]) and until > (select now from clock)
), undone as (
  delete from jobs.job j
  where j.queue = (select id from place) and j.id = any (array(select id from known))
    and case when @stored::text[] is null then j.xmin = pg_current_xact_id()::xid else j.id = any (@stored) end
  returning j.id, j.state, j.unique_key, octet_length(j.body) as size
), freed as (
  delete from jobs.unique_key u
  where u.queue = (select id from place) and u.key = any (array(select unique_key from undone where unique_key is not null))
    and u.token = @token
), counted as (
  insert into jobs.count_delta (queue, pending, scheduled, bytes, enqueued)
  select place.id, -count(*) filter (where state = 1), -count(*) filter (where state = 2), -sum(size), -count(*)
  from place, undone group by place.id
)
select id, true as known, null::text as holder from known
union all
select n.id, exists (select from jobs.job j where j.queue = u.queue and j.id = n.id), u.job
from unnest(@ids::text[], @unique_keys::text[]) as n(id, key) join jobs.unique_key u on u.queue = (select id from place)
  and u.key = any (@unique_keys::text[]) and u.key = n.key
where @unique_keys::text[] is not null and u.token is distinct from @token::bigint
union all
select null, null, w.sent from ({{notified}}) as w(sent) where @self::int is not null
