-- enqueue_keys.sql: take unique keys that are free, or whose hold has run out.
-- Params: $1 now µs|null, $2 queue, $3 also when the queue has a depth limit, $4 keys, each once, $5 IDs, $6 modes,
--   $7 times to live µs, 0 for none, $8 token of this enqueue
-- Returns: nothing
-- Called by: (*Broker).Enqueue, in one transaction before enqueue_careful.sql
with clock as materialized (
  select coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
), wish as materialized (
  select q.id as queue, n.key, n.id, n.mode, clock.now + nullif(n.ttl, 0) as until
  from clock cross join (select id from jobs.queue where name = $2 and layout <= 1 and (max_depth = 0 or $3)) q
  cross join unnest($4::text[], $5::text[], $6::smallint[], $7::bigint[]) as n(key, id, mode, ttl)
), lapsed as (
  -- Not by "on conflict": that would lock the keys that others hold, while their jobs may be about to free them.
  update jobs.unique_key u set job = w.id, mode = w.mode, token = $8, until = w.until
  from wish w
  where u.queue = w.queue and u.key = any ($4) and u.key = w.key and u.until <= (select now from clock)
)
insert into jobs.unique_key (queue, key, job, mode, token, until)
select queue, key, id, mode, $8, until from wish
on conflict (key, queue) do nothing
