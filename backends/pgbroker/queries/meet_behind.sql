-- meet_behind.sql: make a job that enqueue.sql has just stored wait behind the holder of its unique key.
-- Params: @queue, @id, @key, @before the holder, locked, @holder what the job records of it
-- Returns: nothing
-- Called by: (*Broker).Enqueue, in one transaction after enqueue.sql
with place as materialized (
  select id from jobs.queue where name = @queue
), was as materialized (
  select state from jobs.job where queue = (select id from place) and id = @id::text
), behind as (
  update jobs.job set state = 8, held = state::text || ':' || @holder::text, run_at = coalesce(run_at, 0), unique_key = @key::text
  where queue = (select id from place) and id = @id
), kept as (
  update jobs.unique_key set next = @id, until = null where queue = (select id from place) and key = @key and job = @before::text
), counted as (
  insert into jobs.count_delta (queue, pending, scheduled)
  select (select id from place), -count(*) filter (where state = 1), -count(*) filter (where state = 2) from was
)
insert into jobs.count_total as t (queue, waiting) select (select id from place), count(*) from was
on conflict (queue) do update set waiting = t.waiting + excluded.waiting
