-- watch_mark.sql: mark queues as watched for a while, so that settles publish events; register the queues if necessary.
-- Params: @queues names, @span for how long µs, @polls whether the watcher polls
-- Returns: nothing
-- Called by: (*Broker).Watch
with clock as materialized (
  select {{store_time}} + @span as until
)
insert into jobs.queue as q (name, watched_until, polled_until)
select n.name, case when @polls then 0 else clock.until end, case when @polls then clock.until else 0 end
from clock, unnest(@queues::text[]) as n(name) order by n.name collate "C"
on conflict (name) do update set
  watched_until = greatest(q.watched_until, excluded.watched_until), polled_until = greatest(q.polled_until, excluded.polled_until)
