-- examine_drop.sql: remove the older row of a job that has a newer row in another table.
-- Params: @id and @queue number of its queue, @job whether from job, @dead from dead, @history from history
-- Returns: nothing
-- Called by: (*Broker).Examine; if @job may be removed, in one transaction after examine_lock.sql
with live as (
  delete from jobs.job where @job and id = @id and queue = @queue returning queue, state, octet_length(body) as size
), died as (
  delete from jobs.dead where @dead and id = @id and queue = @queue returning queue, suppressed
), kept as (
  delete from jobs.history where @history and id = @id and queue = @queue returning queue, state
), shown as (
  update jobs.count_total set suppressed = suppressed - 1 where queue = @queue and exists (select from died where suppressed)
)
insert into jobs.count_delta (queue, pending, scheduled, active, retry, completed, dead, cancelled, waiting, bytes)
select queue, -count(*) filter (where state = 1), -count(*) filter (where state = 2), -count(*) filter (where state = 3),
       -count(*) filter (where state = 4), -count(*) filter (where state = 5), -count(*) filter (where state = 6),
       -count(*) filter (where state = 7), -count(*) filter (where state = 8), -coalesce(sum(size), 0)
from (
  select queue, state, case when state <> 3 then size end as size from live
  union all select queue, state, null from kept
  union all select queue, 6::smallint, null from died) gone
group by queue
