-- meet_lock.sql: lock the job that a new job with a unique key may replace: the job behind the key's holder, or else the holder.
-- Params: @queue, @key, @behind the prefix of column held in a job that waits behind another one
-- Returns: one row, or none if that job is gone, even if a later job has its ID: ID, state, when it is due µs, when it was created µs,
--   column held, body
-- Called by: (*Broker).Enqueue, in one transaction before meet_look.sql
with place as materialized (
  select id from jobs.queue where name = @queue and layout <= 1
), met as materialized (
  select coalesce(b.id, u.job) as id from jobs.unique_key u
  left join lateral (
    select j.id from jobs.job j
    where j.queue = u.queue and j.id = u.next and j.state = 8 and substr(j.held, 3) = @behind::text || u.job limit 1) b on true
  where u.queue = (select id from place) and u.key = @key::text
)
select id, state, coalesce(run_at, 0), created_at, coalesce(held, ''), body from jobs.job
where queue = (select id from place) and id = any (array(select id from met)) and unique_key = @key for update
