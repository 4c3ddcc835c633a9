-- promoted.sql: makes the jobs in due pending, by due time, at the end of the pending jobs, and makes claims look at their keys.
-- Params: none
turn as materialized (
  -- The row locks have given the transaction its ID before it takes the first seq: the scan floor needs that.
  select o.queue, o.id, nextval('jobs.job_seq') as seq from (select queue, id from due order by run_at, seq) o
), called as (
  insert into jobs.call (queue, key) select distinct queue, key from due where key is not null
), promoted as (
  update jobs.job j set state = 1, seq = t.seq, run_at = null
  from turn t
  where j.id = any (array(select id from turn)) and j.queue = t.queue and j.id = t.id
)
