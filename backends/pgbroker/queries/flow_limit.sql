-- flow_limit.sql: lock the rows that a claim of queues with keys or limits waits for: those of its worker and those of the limits, by the
-- numbers of the queues, whatever order the claim serves these in. No other claim then changes what later statements count.
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
where queue = any (array(select id from place)) and (select count(*) from met) >= 0 -- locks those first
order by queue for no key update
