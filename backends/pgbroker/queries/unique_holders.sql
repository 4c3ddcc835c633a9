-- unique_holders.sql: read which jobs hold unique keys.
-- Params: @queue, @keys
-- Returns: one row per key that is held: key, ID of the holder
-- Called by: (*Broker).Operate
select key, job from jobs.unique_key where queue = (select id from jobs.queue where name = @queue) and key = any (@keys::text[])
