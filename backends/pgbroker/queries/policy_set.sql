-- policy_set.sql: change rules of a queue's policy, and register the queue. If no rule changes, but for a pause, claims need not look
-- at keys again.
-- Params: @queue, @changes JSON of rules and their numbers, @channel, @payload
-- Returns: at most one row, none when the layout is newer: layout, policy, nothing
-- Called by: (*Broker).Policy
with place as (
  insert into jobs.queue as q (name, policy) values (@queue, @changes::jsonb)
  on conflict (name) do update set policy = q.policy || @changes::jsonb, leaving = false,
    changed = q.changed + case when (q.policy || @changes::jsonb) - 'paused' <> q.policy - 'paused' then 1 else 0 end,
    orders = q.orders + case when q.ordered = 0 and (@changes::jsonb->>'ordered')::bigint > 0 then 1 else 0 end
  where q.layout <= 1
  returning id, layout, policy, flow, rate
), skipped as (
  -- Dead heads are no longer heads, even if a later policy lets dead jobs keep their keys back again.
  update jobs.dead set head = null where queue = (select id from place where (policy->>'ordered')::bigint = 2) and head is not null
), limits as (
  insert into jobs.limiter as l (queue) select id from place where flow & 6 > 0
  on conflict (queue) do nothing
), forgotten as (
  -- If a rate is removed, forget what was counted for it.
  update jobs.limiter l set at = case when p.rate = 0 then 0 else l.at end, used = case when p.rate = 0 then 0 else l.used end,
    retry_at = case when p.flow & 4 = 0 then 0 else l.retry_at end, retry_used = case when p.flow & 4 = 0 then 0 else l.retry_used end
  from place p where l.queue = p.id and (p.rate = 0 or p.flow & 4 = 0)
)
select layout, policy, pg_notify(@channel, @payload)::text from place
