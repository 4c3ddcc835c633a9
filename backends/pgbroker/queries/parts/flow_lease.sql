-- flow_lease.sql: leases the jobs that were picked in a queue with keys. It blocks keys that may start no more jobs, removes keys without
-- pending jobs, and gives the other keys the pass of their next turn.
-- Params: @bytes at which the answers end
got as materialized (
  -- Leave out jobs that an operation has locked.
  select ctid as place from jobs.job
  where ctid = any (array(select place from picked where name is not null and before < @bytes)) and state = 1 for update skip locked
), full_keys as materialized (
  -- Those that reach their limits of active jobs if all of these are leased. The end of any such job calls its key.
  select k.name
  from (select * from bound where max_active > 0 and not paused) k
  left join (select name, count(*) as n from picked where before < @bytes group by name) p on p.name = k.name
  where coalesce(p.n, 0) >= k.free
), leased as (
  update jobs.job j set state = 3, worker = (select worker from share),
    head = case when (select ordered from share) > 0 and j.key is not null then (select orders from share) end,
    shuts = case when j.key = any (array(select name from full_keys)) then true end
  where j.ctid = any (array(select place from picked where name is null and before < @bytes) || array(select place from got))
  returning j.queue, j.lane, j.seq, j.cancel, j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body,
            j.unique_key, j.key
), {{started}}, spent as (
  update jobs.limiter set used = used + (select count(*) from leased)
  where queue = (select queue from share where coalesce((policy->>'rate')::bigint, 0) > 0) and exists (select from leased)
), given as materialized (
  select key as name, count(*) as n, count(*) filter (where lane / 2 = 1) as n1, count(*) filter (where lane / 2 = 2) as n2,
         count(*) filter (where lane / 2 = 3) as n3, count(*) filter (where lane / 2 = 4) as n4
  from leased where key is not null group by key
), seen as materialized (
  select ord, max(usable) as usable, count(*) as n, max(lane) as lane, count(*) filter (where priority = 1) as n1,
         count(*) filter (where priority = 2) as n2, count(*) filter (where priority = 3) as n3, count(*) filter (where priority = 4) as n4
  from candidate group by ord
), rest as materialized (
  -- What each key got, and which of its priorities have more jobs: jobs that were read and not leased, or later ones.
  select k.*, array[
           coalesce(k.s1 > k.n1, false) or k.behind < 4 and exists (
             select from jobs.job j where j.queue = (select queue from share) and j.state = 1 and j.key = k.name
               and j.lane between 2 and 3 and j.id is distinct from k.head),
           coalesce(k.s2 > k.n2, false) or k.behind < 6 and exists (
             select from jobs.job j where j.queue = (select queue from share) and j.state = 1 and j.key = k.name
               and j.lane between 4 and 5 and j.id is distinct from k.head),
           coalesce(k.s3 > k.n3, false) or k.behind < 8 and exists (
             select from jobs.job j where j.queue = (select queue from share) and j.state = 1 and j.key = k.name
               and j.lane between 6 and 7 and j.id is distinct from k.head),
           coalesce(k.s4 > k.n4, false) or k.behind < 10 and exists (
             select from jobs.job j where j.queue = (select queue from share) and j.state = 1 and j.key = k.name
               and j.lane between 8 and 9 and j.id is distinct from k.head)] as has
  from (
    select k.*, coalesce(g.n, 0) as given, coalesce(g.n1, 0) as n1, coalesce(g.n2, 0) as n2, coalesce(g.n3, 0) as n3,
           coalesce(g.n4, 0) as n4, c.n1 as s1, c.n2 as s2, c.n3 as s3, c.n4 as s4,
           -- The first lane behind those that were read that has jobs: hardly ever is there one.
           case when k.head is not null then 2 when c.n > c.usable and c.lane / 2 < (select lane from last_lane) / 2 then coalesce((
             select j.lane from jobs.job j where j.queue = (select queue from share) and j.state = 1 and j.key = k.name
               and j.lane > (c.lane | 1) order by j.lane limit 1), 10) else 10 end as behind
    from bound k left join seen c on c.ord = k.ord left join given g on g.name = k.name offset 0) k
), after as materialized (
  select k.*, true = any (k.has) as more, k.free - k.given <= 0 as shut, array[
           case when k.has[1] then coalesce(k.pass[1], f.pass[1] + k.stride - 1 + coalesce(e.r1, 0)) + k.n1 * k.stride end,
           case when k.has[2] then coalesce(k.pass[2], f.pass[2] + k.stride - 1 + coalesce(e.r2, 0)) + k.n2 * k.stride end,
           case when k.has[3] then coalesce(k.pass[3], f.pass[3] + k.stride - 1 + coalesce(e.r3, 0)) + k.n3 * k.stride end,
           case when k.has[4] then coalesce(k.pass[4], f.pass[4] + k.stride - 1 + coalesce(e.r4, 0)) + k.n4 * k.stride end] as new_pass
  from floor f cross join rest k left join entry e on e.ord = k.ord
), older as materialized (
  -- The active jobs of keys that are kept back by their number, other than those of this claim.
  select k.name, j.place
  from (select * from after where more and not paused and max_active > 0 and max_active <= active + given) k
  cross join lateral (
    select ctid as place from jobs.job j
    where j.queue = (select queue from share) and j.state = 3 and j.key = k.name and shuts is not true limit k.max_active) j
), unended as materialized (
  select ctid as place from jobs.job where ctid = any (array(select place from older)) and state = 3 for update skip locked
), marked as (
  update jobs.job set shuts = true where ctid = any (array(select place from unended))
), called as (
  -- The leases of the others are just ending, and will not call.
  insert into jobs.call (queue, key)
  select distinct (select queue from share), name from older where place not in (select place from unended)
), kept as materialized (
  select * from after a where a.more or a.owns or a.jobs > 0 and (a.given > 0 or a.new_used > -a.burst - 1)
), left_out as (
  delete from jobs.key where ctid = any (array(
    select at_row from after where not more and not owns and (jobs = 0 or given = 0 and new_used = -burst - 1)))
), moved as (
  update jobs.key k set
    pass = case when a.more and a.shut is not true then a.new_pass end,
    blocked = case when a.more and a.shut then (select changed from share) end,
    at = coalesce(a.new_at, 0), used = coalesce(a.new_used + a.given, 0),
    until = case when a.jobs = 0 then null
      when not a.more then a.new_at + ((a.new_used + a.given + a.burst + 1) * a.per + a.jobs - 1) / a.jobs
      when a.shut and a.rate_free <= a.given then a.new_at + ((a.new_used + a.given + 1) * a.per + a.jobs - 1) / a.jobs end
  from kept a
  where k.ctid = any (array(select at_row from kept)) and k.name = a.name
), told as materialized (
  select set_config('jobs_claim.leased', (t.jobs + l.jobs)::text, true), set_config('jobs_claim.bytes', (t.bytes + l.bytes)::text, true)
  from taken t cross join (
    select count(*) as jobs, coalesce(sum(octet_length(body) + coalesce(octet_length(tail), 0)), 0) as bytes from leased) l
)
select l.queue, 0::smallint, p.turn, l.cancel, l.id, l.created_at, l.epoch, l.deliveries, l.failures, l.crashes, l.snoozes, l.tail, l.body,
       l.lane, l.key is null, f.pass[l.lane / 2],
       (select count(*) from in_order where name is null) > (select count(*) from leased where key is null),
       (select s.now from share s where coalesce((s.policy->>'rate')::bigint, 0) > 0 or exists (select from bound where jobs > 0))
from leased l join picked p on p.id = l.id cross join floor f cross join told
