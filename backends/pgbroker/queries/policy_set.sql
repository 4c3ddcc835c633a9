-- policy_set.sql: change the rules of a queue's policy that are given, and make the queue known.
-- Params: @queue, @changes JSON of rules and their numbers, @channel, @payload
-- Returns: at most one row, none when the layout is newer: layout, policy, nothing
-- Called by: (*Broker).Policy
insert into jobs.queue as q (name, policy) values (@queue, @changes::jsonb)
on conflict (name) do update set policy = q.policy || @changes::jsonb, leaving = false
where q.layout <= 1
returning layout, policy, pg_notify(@channel, @payload)::text
