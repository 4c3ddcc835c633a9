-- enqueue_keys.sql: take unique keys that are free, or whose hold has run out.
-- Params: $1 now µs|null, $2 queue, $3 also when the queue has a depth limit, $4 keys, each once, $5 IDs, $6 modes,
--   $7 times to live µs, 0 for none, $8 token of this enqueue
-- Returns: nothing
-- Called by: (*Broker).Enqueue, in one transaction before enqueue_careful.sql
with clock as materialized (
  select coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
)
insert into jobs.unique_key as u (queue, key, job, mode, token, until)
select q.id, n.key, n.id, n.mode, $8, clock.now + nullif(n.ttl, 0)
from clock cross join jobs.queue q
cross join unnest($4::text[], $5::text[], $6::smallint[], $7::bigint[]) as n(key, id, mode, ttl)
where q.name = $2 and q.layout <= 1 and (q.max_depth = 0 or $3)
on conflict (key, queue) do update
set job = excluded.job, mode = excluded.mode, token = excluded.token, until = excluded.until
where u.until <= (select now from clock)
