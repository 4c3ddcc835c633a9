-- meet_behind.sql: make a job that enqueue.sql has just stored wait behind the holder of its unique key.
-- Params: @queue, @id, @key, @before the holder, locked, @holder what the job records of it
-- Returns: one row: 1, or 0 if that job does not hold the key any more, and then the transaction must be undone
-- Called by: (*Broker).Enqueue, in one transaction after enqueue.sql
with {{place}}, was as materialized (
  select state from jobs.job where queue = (select id from place) and id = @id::text
), behind as (
  update jobs.job set state = 8, held = state::text || ':' || @holder::text, run_at = coalesce(run_at, 0), unique_key = @key::text
  where queue = (select id from place) and id = @id
), kept as (
  update jobs.unique_key set next = @id, until = null where queue = (select id from place) and key = @key and job = @before::text
  returning 1
), counted as (
  insert into jobs.count_delta (queue, pending, scheduled, waiting)
  select (select id from place), -count(*) filter (where state = 1), -count(*) filter (where state = 2), count(*) from was
)
select count(*) from kept
