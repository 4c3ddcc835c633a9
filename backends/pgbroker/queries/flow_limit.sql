-- flow_limit.sql: lock the rows for which a claim of queues with keys or limits waits: first its worker's rows, then the rows of limits,
-- both by the number of the queue, in whatever order the claim serves the queues. Then no other claim changes what later statements count.
-- Params: @worker, @queues
-- Returns: nothing
-- Called by: (*Broker).Claim, in one transaction before flow_room.sql
with place as materialized (
  select id from jobs.queue where name = any (@queues::text[]) and layout <= 1
), met as materialized (
  select num from jobs.worker where id = @worker and queue = any (array(select id from place)) and ended_at is null
  order by queue for key share
)
select from jobs.limiter
where queue = any (array(select id from place)) and (select count(*) from met) >= 0 -- so that the worker's rows are locked first
order by queue for no key update
