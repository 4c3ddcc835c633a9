-- flow_limit.sql: lock the limits of a queue. What is counted in later statements no other claim changes meanwhile.
-- Params: @queue
-- Returns: nothing
-- Called by: (*Broker).Claim, in one transaction before flow_room.sql
select from jobs.limiter where queue = (select id from jobs.queue where name = @queue and layout <= 1) for no key update
