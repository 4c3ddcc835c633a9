-- flow_room.sql: read for how many jobs the limits of a queue leave room, and store that in a setting of the transaction for later
-- statements. It counts active jobs by their leases, since a stored count could become wrong.
-- Params: @now µs|null, @queue
-- Returns: one row, none when the queue has no limits: how many, when its rate leaves room again|null, the time by which that counts|null,
--   nothing
-- Called by: (*Broker).Claim, in one transaction after flow_limit.sql
with place as materialized (
  select id, max_active, rate, coalesce((policy->>'rate_per')::bigint, 0) as per, coalesce((policy->>'rate_burst')::bigint, 0) as burst,
         -- The same time for all queues of the claim, since all their limits were locked before.
         coalesce(@now::bigint, nullif(split_part(current_setting('jobs_claim.room', true), ':', 3), '')::bigint,
                  {{store_time}}) as now
  from jobs.queue where name = @queue and layout <= 1 and not paused and flow & 2 > 0
), active as materialized (
  select count(*) as n from place p cross join lateral (
    select from jobs.worker w cross join lateral (select from jobs.job j where j.worker = w.num limit p.max_active) j
    where w.queue = p.id and not w.drained limit p.max_active) l
  where p.max_active > 0
), bucket as materialized (
  select p.id, f.*
  from place p cross join lateral (select at, used from jobs.limiter where queue = p.id limit 1) l
  cross join lateral (select l.at, l.used, p.rate as jobs, p.per, p.burst, p.now) b
  cross join lateral ({{bucket}}) f
), moved as (
  update jobs.limiter l set at = b.at, used = b.used from bucket b where l.queue = b.id and (l.at, l.used) is distinct from (b.at, b.used)
), room as materialized (
  select p.id, greatest(least(case when p.max_active > 0 then p.max_active - (select n from active) end,
                              case when p.rate > 0 then coalesce((select free from bucket), 0) end), 0) as n
  from place p
)
select r.n, (select next from bucket), case when p.rate > 0 then p.now end,
       set_config('jobs_claim.room', r.id || ':' || r.n || ':' || p.now, true) from room r, place p
