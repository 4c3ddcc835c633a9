-- flow_keys.sql: the jobs that flow_take.sql and flow_rounds.sql may lease, by the passes of their keys: the jobs of the keys that
-- flow_lock.sql locked, and all jobs without a key, as if they had the same key. Each job raises the pass of its key; the higher the
-- weight of the key, the less.
-- Params: @now µs|null, @queue, @floors scan floors of the lanes 2 to 9, @passes of the jobs without a key, by priority
share as materialized (
  -- Use what flow_lock.sql decided, even if the queue has changed since: the keys that it locked must get their new passes.
  select 1 as ord, q.id as queue, split_part(s.share, ':', 2)::bigint as worker, q.priority_round, q.changed, q.ordered, q.orders,
         q.key_max_active, q.policy, split_part(s.share, ':', 3)::int as most,
         coalesce((q.policy->>'key_rate')::bigint, 0) as key_rate, coalesce((q.policy->>'key_rate_per')::bigint, 0) as key_rate_per,
         coalesce((q.policy->>'key_rate_burst')::bigint, 0) as key_rate_burst,
         -- The time must be read when everything that is counted is locked: in flow_room.sql if the queue has limits, otherwise here.
         coalesce(@now::bigint, case when split_part(s.room, ':', 1) = q.id::text then split_part(s.room, ':', 3)::bigint end,
                  {{store_time}}) as now
  from (select current_setting('jobs_claim.share', true) as share, current_setting('jobs_claim.room', true) as room offset 0) s
  cross join jobs.queue q
  where q.name = @queue and split_part(s.share, ':', 1) = q.id::text
), {{taken}}, floor as materialized (
  -- A key without a pass gets its first turn after one turn of each other key.
  select array[
    coalesce((select pass[1] from jobs.key where queue = s.queue and pass[1] is not null order by pass[1], name limit 1), 0),
    coalesce((select pass[2] from jobs.key where queue = s.queue and pass[2] is not null order by pass[2], name limit 1), 0),
    coalesce((select pass[3] from jobs.key where queue = s.queue and pass[3] is not null order by pass[3], name limit 1), 0),
    coalesce((select pass[4] from jobs.key where queue = s.queue and pass[4] is not null order by pass[4], name limit 1), 0)] as pass
  from share s
), last_lane as materialized (
  -- The last lane of the queue that has jobs with a key.
  select (select j.lane from jobs.job j where j.queue = s.queue and j.state = 1 and j.key <> ''
          order by j.lane desc, j.seq desc limit 1) as lane
  from share s
), ruled as (
  -- The locked keys, and the limits that apply to them.
  select k.ctid as at_row, k.name, k.pass, k.at, k.used, k.policy is not null as owns,
         coalesce((k.policy->>'paused')::int, 0) > 0 as paused, coalesce(nullif((k.policy->>'weight')::bigint, 0), 1) as weight,
         case when s.ordered > 0 then 1
           else coalesce(nullif((k.policy->>'max_active')::bigint, 0), s.key_max_active) end as max_active,
         case when r.own then (k.policy->>'rate')::bigint else s.key_rate end as jobs,
         case when r.own then coalesce((k.policy->>'rate_per')::bigint, 0) else s.key_rate_per end as per,
         case when r.own then coalesce((k.policy->>'rate_burst')::bigint, 0) else s.key_rate_burst end as burst
  from share s
  cross join (select key.*, ctid from jobs.key
    where ctid = any (coalesce(nullif(current_setting('jobs_claim.keys', true), ''), '{}')::tid[])) k
  cross join lateral (select coalesce((k.policy->>'rate')::bigint, 0) > 0 as own offset 0) r
), freed as (
  -- How many jobs of each key may start; null for any number.
  select k.*, nullif(k.first, '') as head, f.at as new_at, f.used as new_used, f.free as rate_free,
         case when k.paused or k.first = '' then 0
           else least(case when k.max_active > 0 then greatest(k.max_active - k.active, 0) end, f.free) end as free
  from share s cross join lateral (
    select k.*,
           case when k.max_active > 0 then (
             select count(*) from (
               select from jobs.job j where j.queue = s.queue and j.state = 3 and j.key = k.name limit k.max_active) o) end as active,
           -- A pending head is the only job of its key that may start. If the head is in another state, first is '' and no job may start.
           case when s.ordered > 0 then (
             select case when bool_and(o.state = 1) then min(o.id) when count(*) > 0 then '' end from (
               (select id, state from jobs.job j
                where j.queue = s.queue and j.key = k.name and j.head is not null and j.head = s.orders)
               union all
               (select id, 6::smallint from jobs.dead d
                where s.ordered = 1 and d.queue = s.queue and d.key = k.name and d.head is not null and d.head = s.orders limit 1)) o)
             end as first
    from ruled k offset 0) k
  left join lateral (
    select k.at, k.used, k.jobs, k.per, k.burst, s.now) b on k.jobs > 0
  left join lateral ({{bucket}}) f on k.jobs > 0
), bound as materialized (
  -- Read at most twice the fair share of a key. If other keys have too few jobs, the claim looks again and takes more jobs of this key.
  select f.*, row_number() over () as ord, 1000000 / f.weight as stride,
         least(f.free, (select most from share),
               2 * ceil((select most from share) * f.weight / sum(f.weight) over ())::bigint)::bigint as usable
  from freed f
), candidate as materialized (
  -- In order. Read one job more of each key than it may get, to see whether it has more.
  select c.*, row_number() over (partition by c.ord order by c.priority, c.lane, c.seq) as n,
         row_number() over (partition by c.ord, c.priority order by c.lane, c.seq) as nth
  from (
    select k.ord, k.name, k.pass[j.lane / 2] as pass, k.stride, k.usable, j.*, j.lane / 2 as priority
    from share s cross join bound k
    cross join generate_series(1, case when s.priority_round > 0 then 4 else 1 end) as g(priority)
    cross join lateral (
      select j.ctid as place, j.id, j.lane, j.seq, octet_length(j.body) + coalesce(octet_length(j.tail), 0) as size from jobs.job j
      where j.queue = s.queue and j.state = 1 and j.key = k.name and (s.priority_round = 0 or j.lane / 2 = g.priority)
      order by j.lane, j.seq limit k.usable + 1) j
    where k.head is null
    union all
    select k.ord, k.name, k.pass[j.lane / 2], k.stride, k.usable, j.*, j.lane / 2
    from share s cross join bound k
    cross join lateral (
      select j.ctid as place, j.id, j.lane, j.seq, octet_length(j.body) + coalesce(octet_length(j.tail), 0) as size from jobs.job j
      where j.queue = s.queue and j.id = k.head and j.state = 1 limit 1) j -- without the limit a plan would read the whole queue
    where k.head is not null) c
), entry as materialized (
  -- New keys of the same claim get their first turns in the order in which their jobs came.
  select ord, max(r) filter (where priority = 1) as r1, max(r) filter (where priority = 2) as r2, max(r) filter (where priority = 3) as r3,
    max(r) filter (where priority = 4) as r4
  from (select ord, priority, row_number() over (partition by priority order by seq) - count(*) over (partition by priority) as r
        from candidate where nth = 1 and pass is null) o
  group by ord
), keyed as materialized (
  select c.name, c.place, c.id, c.lane, c.seq, c.size, c.priority,
         coalesce(c.pass, f.pass[c.priority] + c.stride - 1 + (array[e.r1, e.r2, e.r3, e.r4])[c.priority]) + (c.nth - 1) * c.stride as tag
  from share s cross join floor f cross join candidate c left join entry e on e.ord = c.ord
  where case when s.priority_round > 0 then c.nth else c.n end <= c.usable
), in_order as materialized (
  -- By priority: up to the limit, or all of them if the priorities take turns.
  select p.priority, l.*
  from share s cross join floor f cross join generate_series(1, 4) as p(priority)
  cross join lateral (
    select o.* from (
      select c.name, c.place, c.id, c.lane, c.seq, c.size, c.tag from keyed c where c.priority = p.priority
      union all
      select null, r.*, b.pass + 1000000 * (row_number() over () - 1)
      from (select least(greatest(coalesce(nullif((@passes::bigint[])[p.priority], 0), f.pass[p.priority] + 999999),
                                  f.pass[p.priority] - 1), f.pass[p.priority] + 1000000) as pass offset 0) b
      cross join lateral (
        select j.* from generate_series(2 * p.priority, 2 * p.priority + 1) as n(lane) cross join lateral (
          select j.ctid as place, j.id, j.lane, j.seq, octet_length(j.body) + coalesce(octet_length(j.tail), 0) as size from jobs.job j
          where {{pending}}
          order by j.seq limit s.most for update skip locked) j
        -- Lock only as many jobs as are within the limit.
        limit case when exists (
            select from generate_series(2 * p.priority, 2 * p.priority + 1) as n(lane) cross join lateral (
              select from jobs.job j where {{pending}} limit 1) j)
          then (select count(*) filter (where t.free) from (
                  select c.tag, false as free from keyed c where c.priority = p.priority
                  union all select b.pass + 1000000 * (i - 1), true from generate_series(1, s.most) as i
                  order by 1, 2 limit s.most) t) else 0 end) r) o
    order by o.tag, o.name is null, o.seq) l
  limit (select case when priority_round = 0 then most end from share)
)
