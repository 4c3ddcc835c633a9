-- policy.sql: read the policy of a queue, or of a key.
-- Params: @queue, @key, '' for that of the queue
-- Returns: at most one row: layout, policy|null
-- Called by: (*Broker).Policy
select q.layout, case when @key::text = '' then q.policy else k.policy end
from jobs.queue q left join lateral (select policy from jobs.key where queue = q.id and name = @key limit 1) k on true
where q.name = @queue
