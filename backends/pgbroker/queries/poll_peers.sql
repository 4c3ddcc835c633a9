-- poll_peers.sql: count the workers that are alive in the queue that has the fewest of them.
-- Params: @queues, @most are counted at most
-- Returns: one row: how many
-- Called by: (*Broker).Renew of a broker that never listens, once a minute
select coalesce(min(c.n), 0) from unnest(@queues::text[]) as n(name)
cross join lateral (select id from jobs.queue where name = n.name limit 1) q
cross join lateral (select count(*) as n from (
  select from jobs.worker w where w.queue = q.id and not w.drained and w.ended_at is null limit @most) o) c
