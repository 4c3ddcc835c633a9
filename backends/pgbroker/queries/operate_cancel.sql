-- operate_cancel.sql: cancel jobs that are neither active nor final; cancelled.sql then moves them.
-- Params: @queue, @ids, all of them locked
-- Returns: nothing
-- Called by: (*Broker).Operate
with {{place}}, was as materialized (
  select state, octet_length(body) as size from jobs.job where queue = (select id from place) and id = any (@ids::text[])
), ended as (
  update jobs.job set state = 7, epoch = coalesce(epoch, 0) + 1 where queue = (select id from place) and id = any (@ids::text[])
)
insert into jobs.count_delta (queue, pending, scheduled, retry, waiting, bytes, dropped)
select (select id from place), -count(*) filter (where state = 1), -count(*) filter (where state = 2), -count(*) filter (where state = 4),
       nullif(-count(*) filter (where state = 8), 0),
       -coalesce(sum(size), 0), count(*)
from was
