-- claim_after.sql: say how a claim's queues stand.
-- Params: $1 now µs|null, $2 worker, $3 queues
-- Returns: one row per queue in order: its number|null, now, layout|null, whether the worker is alive in it, next due time|null
-- Called by: (*Broker).Claim, in one transaction after claim.sql; (*Broker).Reclaim
select q.id, coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint), q.layout,
       exists (select from jobs.worker w where w.queue = q.id and w.id = $2 and w.ended_at is null),
       least(
         (select run_at from jobs.job where queue = q.id and state = 2 and run_at is not null order by run_at limit 1),
         (select run_at from jobs.job where queue = q.id and state = 4 and run_at is not null order by run_at limit 1))
from unnest($3::text[]) with ordinality as s(name, ord) left join lateral (select id, layout from jobs.queue where name = s.name limit 1) q on true
order by s.ord
