-- flow_take.sql: lease pending jobs of a queue with keys or limits. Within a priority the keys that flow_lock.sql locked go by
-- their passes: each job moves the pass of its key on, by the less the more weight the key has, and the lowest pass is next. All
-- jobs without a key are one line beside them, whose pass the caller keeps. Keys that may start nothing are kept back, those that
-- have nothing pending leave. Of priorities that go in rounds the jobs get turns as in claim_rounds.sql.
-- Params: @now µs|null, @queue, @floors scan floors of the lanes 2 to 9,
--   @bytes at which the answers end, @passes of the line without a key, by priority, @turn number of the next turn in the round
-- Returns: one row per job: number of its queue, 0, its turn, the other columns of claim.sql, its lane, whether it is without a key, the
--   lowest pass of its priority, and whether jobs were locked that are not leased
-- Called by: (*Broker).Claim, in one transaction after flow_lock.sql
with share as materialized (
  -- As flow_lock.sql decided, whatever has changed since: the keys that it locked have to get their turns.
  select 1 as ord, q.id as queue, split_part(s.share, ':', 2)::bigint as worker, q.priority_round, q.changed, q.ordered, q.orders,
         q.key_max_active, q.policy, split_part(s.share, ':', 3)::int as most
  from (select current_setting('jobs_claim.share', true) as share offset 0) s cross join jobs.queue q
  where q.name = @queue and split_part(s.share, ':', 1) = q.id::text
), taken as materialized (
  select coalesce(nullif(current_setting('jobs_claim.leased', true), '')::int, 0) as jobs,
         coalesce(nullif(current_setting('jobs_claim.bytes', true), '')::bigint, 0) as bytes
), floor as materialized (
  -- Where a key begins that had no turns, or none of late: behind one turn of each other.
  select array[
    coalesce((select pass[1] from jobs.key where queue = s.queue and pass[1] is not null order by pass[1], name limit 1), 0),
    coalesce((select pass[2] from jobs.key where queue = s.queue and pass[2] is not null order by pass[2], name limit 1), 0),
    coalesce((select pass[3] from jobs.key where queue = s.queue and pass[3] is not null order by pass[3], name limit 1), 0),
    coalesce((select pass[4] from jobs.key where queue = s.queue and pass[4] is not null order by pass[4], name limit 1), 0)] as pass
  from share s
), ruled as materialized (
  -- The locked keys, and what rules them.
  select k.name, k.pass, k.at, k.used, k.policy is not null as owns, coalesce((k.policy->>'paused')::int, 0) > 0 as paused,
         coalesce(nullif((k.policy->>'weight')::bigint, 0), 1) as weight,
         case when s.ordered > 0 then 1
           else coalesce(nullif((k.policy->>'max_active')::bigint, 0), s.key_max_active) end as max_active,
         r.jobs, r.per, r.burst
  from share s
  cross join unnest(coalesce(nullif(current_setting('jobs_claim.keys', true), ''), '{}')::text[]) as n(name)
  cross join lateral (select * from jobs.key where queue = s.queue and key.name = n.name limit 1) k
  cross join lateral (
    select coalesce((p.policy->>(p.rule))::bigint, 0) as jobs, coalesce((p.policy->>(p.rule || '_per'))::bigint, 0) as per,
           coalesce((p.policy->>(p.rule || '_burst'))::bigint, 0) as burst
    from (select case when coalesce((k.policy->>'rate')::bigint, 0) > 0 then k.policy else s.policy end as policy,
                 case when coalesce((k.policy->>'rate')::bigint, 0) > 0 then 'rate' else 'key_rate' end as rule) p) r
), freed as materialized (
  -- How many jobs of each key may start; null for any number.
  select k.*, h.id as head, f.at as new_at, f.used as new_used, f.free as rate_free,
         case when k.paused or h.stops then 0
           else least(case when k.max_active > 0 then greatest(k.max_active - a.n, 0) end, f.free) end as free
  from share s cross join ruled k
  left join lateral (
    select count(*) as n from (
      select from jobs.job j where j.queue = s.queue and j.state = 3 and j.key = k.name limit k.max_active) o) a on k.max_active > 0
  left join lateral (
    -- A head that is pending is the only one that may start.
    select case when bool_and(o.state = 1) then min(o.id) end as id, bool_or(o.state <> 1) as stops from (
      (select id, state from jobs.job j where j.queue = s.queue and j.key = k.name and j.head is not null and j.head = s.orders)
      union all
      (select id, 6::smallint from jobs.dead d
       where s.ordered = 1 and d.queue = s.queue and d.key = k.name and d.head is not null and d.head = s.orders limit 1)) o
    ) h on s.ordered > 0
  left join lateral (
    select k.at, k.used, k.jobs, k.per, k.burst,
           coalesce(@now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now) b on k.jobs > 0
  left join lateral ({{bucket}}) f on k.jobs > 0
), bound as materialized (
  -- One key needs twice its share of the jobs at most, or it has less to do with others and more to do with a further look.
  select f.*, 1000000 / f.weight as stride,
         least(f.free, (select most from share),
               2 * ceil((select most from share) * f.weight / sum(f.weight) over ())::bigint + 2)::bigint as usable
  from freed f
), candidate as materialized (
  select k.name, j.*, row_number() over (partition by k.name order by j.lane, j.seq) as n,
         row_number() over (partition by k.name, j.lane / 2 order by j.lane, j.seq) as nth
  from share s cross join bound k
  cross join generate_series(1, case when s.priority_round > 0 then 4 else 1 end) as g(priority)
  cross join lateral (
    select j.ctid as place, j.id, j.lane, j.seq, octet_length(j.body) + coalesce(octet_length(j.tail), 0) as size from jobs.job j
    where j.queue = s.queue and j.state = 1 and j.key = k.name and (s.priority_round = 0 or j.lane / 2 = g.priority)
    order by j.lane, j.seq limit k.usable + 1) j
  where k.head is null
  union all
  select k.name, j.*, 1, 1
  from share s cross join bound k
  cross join lateral (
    select j.ctid as place, j.id, j.lane, j.seq, octet_length(j.body) + coalesce(octet_length(j.tail), 0) as size from jobs.job j
    where j.queue = s.queue and j.id = k.head and j.state = 1) j
  where k.head is not null
), entry as materialized (
  -- Keys that begin at once do so in the order in which their jobs came.
  select name, array[max(r) filter (where priority = 1), max(r) filter (where priority = 2), max(r) filter (where priority = 3),
    max(r) filter (where priority = 4)] as r
  from (select name, priority, row_number() over (partition by priority order by seq) - count(*) over (partition by priority) as r
        from (select c.name, c.lane / 2 as priority, min(c.seq) as seq from candidate c join bound k on k.name = c.name
              where k.pass[c.lane / 2] is null group by c.name, c.lane / 2) b) o
  group by name
), keyed as materialized (
  select c.name, c.place, c.id, c.lane, c.seq, c.size, c.lane / 2 as priority,
         coalesce(k.pass[c.lane / 2], f.pass[c.lane / 2] + k.stride - 1 + e.r[c.lane / 2]) + (c.nth - 1) * k.stride as tag
  from floor f cross join candidate c join bound k on k.name = c.name left join entry e on e.name = c.name
  where case when (select priority_round from share) > 0 then c.nth else c.n end <= k.usable
), line as materialized (
  -- By priority: as long as the limit is not reached, or all of them.
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
        -- As many as go before the last of the limit: none is locked that stays.
        limit (select count(*) filter (where t.free) from (
                 select c.tag, false as free from keyed c where c.priority = p.priority
                 union all select b.pass + 1000000 * (i - 1), true from generate_series(1, s.most) as i
                 order by 1, 2 limit s.most) t)) r) o
    order by o.tag, o.name is null, o.seq) l
  limit (select case when priority_round = 0 then most end from share)
), ranked as materialized (
  select l.*, row_number() over (partition by l.priority order by l.tag, l.name is null, l.seq) as r from line l
), round as materialized (
  select s.most, @turn::bigint + taken.jobs as turn, coalesce(nullif(s.priority_round, 0), 1::bigint << 40) as round
  from share s cross join taken
), reserved as materialized (
  -- Of each lower priority as many as have a turn of theirs.
  select l.place, f.first + o.round * (l.r - 1) as turn
  from round o cross join lateral (
    select p as priority, o.turn + mod(o.round - 5 + p - mod(o.turn, o.round) + o.round, o.round) as first
    from generate_series(2, 4) as p) f
  join ranked l on l.priority = f.priority and f.first + o.round * (l.r - 1) < o.turn + o.most
), free as materialized (
  select t.turn, row_number() over (order by t.turn) as n
  from round o cross join lateral generate_series(o.turn, o.turn + o.most - 1) as t(turn)
  where t.turn not in (select turn from reserved)
), chosen as materialized (
  select l.priority, l.place, l.r, coalesce(r.turn, f.turn) as turn
  from (select l.*, case when r.turn is null
          then row_number() over (partition by r.turn is null order by l.priority, l.r) end as nth
        from ranked l left join reserved r on r.place = l.place) l
  left join reserved r on r.place = l.place
  left join free f on f.n = l.nth
  where r.turn is not null or f.turn is not null
), picked as materialized (
  -- The jobs of one priority take the turns of theirs in their own order.
  select o.*, sum(o.size) over (order by o.turn rows unbounded preceding) - o.size + (select bytes from taken) as before
  from (
    select l.name, l.place, l.id, l.size, l.priority, t.turn, row_number() over (partition by l.name order by t.turn) as nth
    from (select priority, place, row_number() over (partition by priority order by r) as n from chosen) j
    join (select priority, turn, row_number() over (partition by priority order by turn) as n from chosen) t
      on t.priority = j.priority and t.n = j.n
    join ranked l on l.place = j.place) o
  -- In rounds a key may have got turns at several priorities, and more than it may have.
  left join bound k on k.name = o.name
  where k.free is null or o.nth <= k.free
), got as materialized (
  -- Not those that an operator is at work on.
  select ctid as place from jobs.job
  where ctid = any (array(select place from picked where name is not null and before < @bytes)) and state = 1 for update skip locked
), leased as (
  update jobs.job j set state = 3, worker = (select worker from share),
    head = case when (select ordered from share) > 0 and j.key is not null then (select orders from share) end
  where j.ctid = any (array(select place from picked where name is null and before < @bytes) || array(select place from got))
  returning j.queue, j.lane, j.seq, j.cancel, j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body,
            j.unique_key, j.key
), started as (
  delete from jobs.unique_key u
  where u.queue = (select queue from share) and u.key = any (array(select unique_key from leased where unique_key is not null))
    and u.mode = 1 and exists (select from leased l where l.unique_key = u.key and l.id = u.job)
), counted as (
  insert into jobs.count_delta (queue, pending, active, bytes)
  select queue, -count(*), count(*), -sum(octet_length(body)) from leased group by queue
), spent as (
  update jobs.limiter set used = used + (select count(*) from leased)
  where queue = (select queue from share where coalesce((policy->>'rate')::bigint, 0) > 0) and exists (select from leased)
), given as materialized (
  select key as name, count(*) as n, count(*) filter (where lane / 2 = 1) as n1, count(*) filter (where lane / 2 = 2) as n2,
         count(*) filter (where lane / 2 = 3) as n3, count(*) filter (where lane / 2 = 4) as n4
  from leased where key is not null group by key
), rest as materialized (
  -- Which priorities of each key have more that is pending: what was read and not given, or comes behind what was read.
  select k.name, array_agg(coalesce(c.n, 0) > coalesce((array[g.n1, g.n2, g.n3, g.n4])[p], 0)
           or b.seen > k.usable and exists (
             select from jobs.job j where j.queue = (select queue from share) and j.state = 1 and j.key = k.name
               and j.lane between 2 * p and 2 * p + 1 and (j.lane, j.seq) > (b.lane, b.seq))
           or k.head is not null and exists (
             select from jobs.job j where j.queue = (select queue from share) and j.state = 1 and j.key = k.name
               and j.lane between 2 * p and 2 * p + 1 and j.id <> k.head) order by p) as has
  from bound k left join given g on g.name = k.name cross join generate_series(1, 4) as p
  left join (select name, lane / 2 as priority, count(*) as n from candidate group by 1, 2) c on c.name = k.name and c.priority = p
  left join (select distinct on (name) name, lane, seq, count(*) over (partition by name) as seen
             from candidate order by name, lane desc, seq desc) b on b.name = k.name
  group by k.name
), after as materialized (
  select k.*, coalesce(g.n, 0) as given, true = any (r.has) as more, k.free - coalesce(g.n, 0) <= 0 as shut,
         array[case when r.has[1]
                 then coalesce(k.pass[1], f.pass[1] + k.stride - 1 + coalesce(e.r[1], 0)) + coalesce(g.n1, 0) * k.stride end,
               case when r.has[2]
                 then coalesce(k.pass[2], f.pass[2] + k.stride - 1 + coalesce(e.r[2], 0)) + coalesce(g.n2, 0) * k.stride end,
               case when r.has[3]
                 then coalesce(k.pass[3], f.pass[3] + k.stride - 1 + coalesce(e.r[3], 0)) + coalesce(g.n3, 0) * k.stride end,
               case when r.has[4]
                 then coalesce(k.pass[4], f.pass[4] + k.stride - 1 + coalesce(e.r[4], 0)) + coalesce(g.n4, 0) * k.stride end] as new_pass
  from floor f cross join bound k join rest r on r.name = k.name left join given g on g.name = k.name left join entry e on e.name = k.name
), left_out as (
  delete from jobs.key where queue = (select queue from share) and name = any (array(
    select name from after where not more and not owns and (jobs = 0 or given = 0 and new_used = -burst - 1)))
), moved as (
  update jobs.key k set
    pass = case when a.more and a.shut is not true then a.new_pass end,
    blocked = case when a.more and a.shut then (select changed from share) end,
    at = coalesce(a.new_at, 0), used = coalesce(a.new_used + a.given, 0),
    until = case when a.jobs = 0 then null
      when not a.more then a.new_at + ((a.new_used + a.given + a.burst + 1) * a.per + a.jobs - 1) / a.jobs
      when a.shut and a.rate_free <= a.given then a.new_at + ((a.new_used + a.given + 1) * a.per + a.jobs - 1) / a.jobs end
  from after a
  where k.queue = (select queue from share) and k.name = any (array(select name from after)) and k.name = a.name
    and (a.more or a.owns or a.jobs > 0 and (a.given > 0 or a.new_used > -a.burst - 1))
), told as materialized (
  select set_config('jobs_claim.leased', (t.jobs + count(l.*))::text, true),
         set_config('jobs_claim.bytes', (t.bytes + coalesce(sum(octet_length(l.body) + coalesce(octet_length(l.tail), 0)), 0))::text, true)
  from taken t left join leased l on true group by t.jobs, t.bytes
)
select l.queue, 0::smallint, p.turn, l.cancel, l.id, l.created_at, l.epoch, l.deliveries, l.failures, l.crashes, l.snoozes, l.tail, l.body,
       l.lane, l.key is null, f.pass[l.lane / 2],
       (select count(*) from line where name is null) > (select count(*) from leased where key is null)
from leased l join picked p on p.id = l.id cross join floor f cross join told
