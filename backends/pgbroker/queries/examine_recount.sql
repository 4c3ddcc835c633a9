-- examine_recount.sql: count jobs, compare the results with the stored counts, and correct these by the differences.
-- Params: as examine_counts.sql: @queue, @floor
-- Returns: as examine_counts.sql, by how much the counts were too low
-- Called by: (*Broker).Examine
with {{differing}}, corrected as (
  insert into jobs.count_delta (queue, pending, scheduled, active, retry, completed, dead, cancelled, waiting, bytes)
  select queue, pending, scheduled, active, retry, completed, dead, cancelled, waiting, bytes from differing
  where (pending, scheduled, active, retry, completed, dead, cancelled, waiting, bytes) <> (0, 0, 0, 0, 0, 0, 0, 0, 0)
    and pg_current_xact_id() is not null -- the transaction gets its ID before the delta its number: the floor of the deltas needs that
), listed as (
  insert into jobs.count_total as t (queue, suppressed) select queue, suppressed from differing where suppressed <> 0
  on conflict (queue) do update set suppressed = t.suppressed + excluded.suppressed
)
select * from differing order by name
