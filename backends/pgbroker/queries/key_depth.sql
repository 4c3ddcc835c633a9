-- key_depth.sql: read the depth limits of keys, and how many of their jobs are neither active nor final.
-- Params: @queue, @keys, each once
-- Returns: one row per key that has a limit: the key, the limit, how many, at most as many as the limit
-- Called by: (*Broker).Enqueue
select k.name, k.most, (
  select count(*) from (
    select from (values (1::smallint), (2), (4), (8)) as o(state) cross join lateral (
      select from jobs.job j where j.queue = k.queue and j.state = o.state and j.key = k.name limit k.most) j
    limit k.most) d)
from (
  select q.id as queue, n.name, coalesce(nullif((o.policy->>'max_depth')::bigint, 0), (q.policy->>'key_max_depth')::bigint, 0) as most
  from (select id, policy from jobs.queue where name = @queue) q cross join unnest(@keys::text[]) as n(name)
  left join lateral (select policy from jobs.key where queue = q.id and key.name = n.name limit 1) o on true offset 0) k
where k.most > 0
