-- keys.sql: describe the keys of a queue that have a policy, or jobs that have not ended, in the order of their names.
-- Params: @queue, @names exactly these|null, @after the name after which the page begins, @limit, @most at which counts stop
-- Returns: one row per key: name, policy of the queue, its own|null, its broker.Bucket: at and used, pending and active jobs, and
--   those that are pending, scheduled, waiting or in retry, creation of the first that is pending|null, and of its head, if there
--   is one, the ID|null and the state|null
-- Called by: (*Broker).Keys
with recursive place as materialized (
  select id, policy, ordered, orders from jobs.queue where name = @queue
), walk as (
  -- Go from key to key, not from job to job.
  (select j.key from jobs.job j where @names::text[] is null and j.queue = (select id from place) and j.key > @after::text
   order by j.key limit 1)
  union all
  select (select j.key from jobs.job j where j.queue = (select id from place) and j.key > w.key order by j.key limit 1)
  from walk w where w.key is not null
), named as materialized (
  select n.name from (
    select name, ord from unnest(@names::text[]) with ordinality as n(name, ord)
    union
    (select key, 0 from walk where key is not null limit @limit)
    union
    (select k.name, 0 from jobs.key k
     where @names is null and k.queue = (select id from place) and k.policy is not null and k.name > @after order by k.name limit @limit)) n
  order by n.ord, n.name limit @limit
)
select n.name, p.policy, k.policy, coalesce(k.at, 0), coalesce(k.used, 0),
       (select count(*) from (select from jobs.job j where j.queue = p.id and j.state = 1 and j.key = n.name limit @most) c),
       (select count(*) from (select from jobs.job j where j.queue = p.id and j.state = 3 and j.key = n.name limit @most) c),
       (select count(*) from (
          select from (values (1::smallint), (2), (4), (8)) as o(state) cross join lateral (
            select from jobs.job j where j.queue = p.id and j.state = o.state and j.key = n.name limit @most) j
          limit @most) c),
       (select j.created_at from jobs.job j where j.queue = p.id and j.state = 1 and j.key = n.name order by j.lane, j.seq limit 1),
       h.id, h.state
from place p cross join named n
left join lateral (select * from jobs.key where queue = p.id and key.name = n.name limit 1) k on true
left join lateral (
  select id, state from (
    select id, state from jobs.job j where j.queue = p.id and j.key = n.name and j.head is not null and j.head = p.orders
    union all
    select id, 6::smallint from jobs.dead d
    where p.ordered = 1 and d.queue = p.id and d.key = n.name and d.head is not null and d.head = p.orders) o
  limit 1) h on p.ordered > 0
order by case when @names is not null then array_position(@names, n.name) end, n.name collate "C"
