-- queue_numbers.sql: read the numbers of queues. A claim that does not look at its queues needs them to know the queues of its jobs.
-- Params: @queues names
-- Returns: one row per queue in order: its number|null
-- Called by: (*Broker).Claim, in one transaction before claim.sql
select q.id from unnest(@queues::text[]) with ordinality as s(name, ord)
left join lateral (select id from jobs.queue where name = s.name limit 1) q on true
order by s.ord
