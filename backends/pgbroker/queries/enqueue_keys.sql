-- enqueue_keys.sql: take unique keys that are free, or whose time is over. All calls take keys in the same order, so that
-- batches that share keys do not deadlock. A setting of the transaction keeps the time for enqueue.sql, so that a job is created
-- at the time when it takes its key.
-- Params: @now µs|null, @queue, @limited true if the limits of its policy were checked, @keys, each once, @ids, @modes, @ttls times to
--   live µs, 0 for none, @token of this enqueue
-- Returns: nothing
-- Called by: (*Broker).Enqueue, in one transaction before enqueue.sql or restore.sql; (*Broker).Operate
with clock as materialized (
  select now, set_config('jobs_enqueue.now', now::text, true)
  from (select {{now}} as now) c
), wish as materialized (
  select q.id as queue, n.key, n.id, n.mode, clock.now + nullif(n.ttl, 0) as until
  from clock cross join (select id from jobs.queue where name = @queue and layout <= 1 and (not bounded or @limited)) q
  cross join unnest(@keys::text[], @ids::text[], @modes::smallint[], @ttls::bigint[]) as n(key, id, mode, ttl)
  order by n.key collate "C"
), lapsed as (
  -- Do not use "on conflict" for this: it would lock the keys that other jobs hold and may be about to free.
  update jobs.unique_key u set job = w.id, mode = w.mode, token = @token, until = w.until
  from wish w
  where u.queue = w.queue and u.key = any (@keys) and u.key = w.key and u.until <= (select now from clock)
)
insert into jobs.unique_key (queue, key, job, mode, token, until)
select queue, key, id, mode, @token, until from wish -- in the order of wish
on conflict (key, queue) do nothing
