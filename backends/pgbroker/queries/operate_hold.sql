-- operate_hold.sql: take pending, scheduled and retry jobs out of the queue.
-- Params: @queue, @ids, all of them locked, @holder for whom
-- Returns: nothing
-- Called by: (*Broker).Operate
with {{place}}, was as materialized (
  select state from jobs.job where queue = (select id from place) and id = any (@ids::text[])
), held as (
  update jobs.job set state = 8, held = state::text || ':' || @holder::text, run_at = coalesce(run_at, 0), epoch = coalesce(epoch, 0) + 1
  where queue = (select id from place) and id = any (@ids::text[])
)
insert into jobs.count_delta (queue, pending, scheduled, retry, waiting)
select (select id from place), -count(*) filter (where state = 1), -count(*) filter (where state = 2), -count(*) filter (where state = 4),
       count(*)
from was
