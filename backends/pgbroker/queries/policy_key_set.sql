-- policy_key_set.sql: change rules of a key's policy, register its queue, and make claims look at the key.
-- Params: @queue, @key, @changes JSON of rules and their numbers, @channel, @payload
-- Returns: at most one row, none when the layout is newer: layout, policy|null, nothing
-- Called by: (*Broker).Policy
with place as (
  insert into jobs.queue as q (name, own_active, own_depth)
  values (@queue, coalesce((@changes::jsonb->>'max_active')::bigint, 0) > 0, coalesce((@changes::jsonb->>'max_depth')::bigint, 0) > 0)
  on conflict (name) do update set leaving = false, own_active = q.own_active or excluded.own_active,
    own_depth = q.own_depth or excluded.own_depth
  where q.layout <= 1
  returning id, layout
), kept as (
  insert into jobs.key as k (queue, name, policy)
  select id, @key, (select jsonb_object_agg(key, value) from jsonb_each(@changes::jsonb) where value <> '0') from place
  -- As if the key had been kept back under an older policy of the queue.
  on conflict (name, queue) do update set blocked = case when k.blocked is not null then -1 end, policy = (
    select jsonb_object_agg(key, value) from jsonb_each(coalesce(k.policy, '{}') || @changes::jsonb) where value <> '0')
  returning policy
), called as (
  insert into jobs.call (queue, key) select id, @key from place
)
select p.layout, k.policy, pg_notify(@channel, @payload)::text from place p cross join kept k
