-- examine_turns.sql: read the highest seq in any lane, and the last seq taken.
-- Params: none
-- Returns: one row: highest seq, last seq, number of queues
-- Called by: (*Broker).Examine
select coalesce(max(t.turn), 0), (select last_value from jobs.job_seq), (select count(*) from jobs.queue)
from (
  select greatest(
    (select seq from jobs.job where state = 1 and queue = q.id and lane = l.lane::smallint order by seq desc limit 1),
    (select -seq from jobs.job where state = 1 and queue = q.id and lane = l.lane::smallint order by seq limit 1)) as turn
  from jobs.queue q cross join generate_series(2, 9) as l(lane)) t
