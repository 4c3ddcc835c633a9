-- examine_drop.sql: remove the older row of a job that has a newer row in another table.
-- Params: @id and @queue number of its queue, @job whether from job, @dead from dead, @history from history
-- Returns: one row: how many from job by state 1, 2, 3, 4 and 8, from history by state 5 and 7, from dead, bytes of those from job that
--   were not active
-- Called by: (*Broker).Examine, in one transaction after examine_lock.sql
with live as (
  delete from jobs.job where @job and id = @id and queue = @queue returning state, octet_length(body) as size
), died as (
  delete from jobs.dead where @dead and id = @id and queue = @queue returning suppressed
), kept as (
  delete from jobs.history where @history and id = @id and queue = @queue returning state
), shown as (
  update jobs.count_total set suppressed = suppressed - 1 where queue = @queue and exists (select from died where suppressed)
)
select count(*) filter (where state = 1), count(*) filter (where state = 2), count(*) filter (where state = 3),
  count(*) filter (where state = 4), count(*) filter (where state = 8),
       count(*) filter (where state = 5), count(*) filter (where state = 7), count(*) filter (where state = 6),
       coalesce((select sum(size) from live where state <> 3), 0)
from (select state from live union all select state from kept union all select 6::smallint from died) gone
