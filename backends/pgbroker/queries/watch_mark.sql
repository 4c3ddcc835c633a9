-- watch_mark.sql: mark queues as watched for a while, so that settles tell of themselves; make them known.
-- Params: $1 names, $2 for how long µs, $3 whether the watcher polls
-- Returns: nothing
-- Called by: (*Broker).Watch
with clock as materialized (
  select (extract(epoch from statement_timestamp()) * 1000000)::bigint + $2 as until
)
insert into jobs.queue as q (name, watched_until, polled_until)
select n.name, case when $3 then 0 else clock.until end, case when $3 then clock.until else 0 end
from clock, unnest($1::text[]) as n(name)
on conflict (name) do update set
  watched_until = greatest(q.watched_until, excluded.watched_until), polled_until = greatest(q.polled_until, excluded.polled_until)
