-- policy_key.sql: read the policy of a key.
-- Params: @queue, @key
-- Returns: at most one row: layout, policy|null
-- Called by: (*Broker).Policy
select q.layout, k.policy
from jobs.queue q left join lateral (select policy from jobs.key where queue = q.id and name = @key limit 1) k on true
where q.name = @queue
