-- room_again.sql: reads when the rate of queue q allows a start again; no row if it allows one now, or if there is no rate.
-- Params: @now µs|null
select f.next
  from (select at, used from jobs.limiter where queue = q.id and q.rate > 0 limit 1) l
  cross join lateral (
    select l.at, l.used, q.rate as jobs, coalesce((q.policy->>'rate_per')::bigint, 0) as per,
           coalesce((q.policy->>'rate_burst')::bigint, 0) as burst,
           {{now}} as now) b
  cross join lateral ({{bucket}}) f where f.next is not null
