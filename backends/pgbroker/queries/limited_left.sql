-- limited_left.sql: read whether jobs are left in a queue without keys, and when its rate allows a start again. If the queue has keys or
-- limits of which the claim did not know, the claim takes nothing from the queues after it.
-- Params: @now µs|null, @queue, @floors scan floors of the lanes 2 to 9, @flow how it is served as far as the claim knows
-- Returns: one row, none when there is no such queue: when|null, whether, nothing
-- Called by: (*Broker).Claim, in one transaction after claim_limited.sql
select b.next, exists (
  select from (select 1 as ord, q.id as queue) s cross join generate_series(2, 9) as n(lane) cross join lateral (
    select from jobs.job j
    where {{pending}}
    order by j.seq limit 1) p), {{unknown}}
from jobs.queue q
left join lateral ({{room_again}}) b on true
where q.name = @queue
