-- claim_due.sql: make due jobs pending, by due time, at the end of the pending jobs, and describe the queues.
-- Params: @now µs|null, @worker, @queues, each once, @each_limit limit for each queue and state, @limit in all, @due_at due times and
--   @due_turns seqs of the scan floors, one for each queue
-- Returns: one row per queue in order: its number|null, now, layout|null, whether the worker is alive in it,
--   how many jobs became pending in all, next due time|null, the queue's priority round|null, how claims serve it|null
-- Called by: (*Broker).Claim, in one transaction before claim.sql
with {{clock}}, asked as materialized (
  select s.ord, q.id as queue, q.layout, q.priority_round, q.flow
  from unnest(@queues::text[]) with ordinality as s(name, ord)
  left join lateral (select id, layout, priority_round, flow from jobs.queue where name = s.name limit 1) q on true
), due as materialized (
  select d.id, d.run_at, d.seq, d.queue, d.state, d.key
  from (
    -- If lease_due.sql leased some, at most 100 together with these: enough to keep the order if few jobs are due.
    select case when leased = 0 then @each_limit else greatest(100 - leased, 0) end as most
    from (select coalesce(nullif(current_setting('jobs_claim.leased', true), '')::int, 0) as leased offset 0) l) t
  cross join asked s cross join (values (2::smallint), (4::smallint)) as o(state)
  cross join lateral (
    select id, run_at, seq, queue, state, key from jobs.job j
    where {{due}}
    order by j.run_at, j.seq limit t.most for update skip locked) d
  where s.layout <= 1 and (o.state = 2 or s.flow < 4) -- else flow_retry.sql does it
  limit @limit
), counted as (
  insert into jobs.count_delta (queue, pending, scheduled, retry)
  select queue, count(*), -count(*) filter (where state = 2), -count(*) filter (where state = 4) from due group by queue
), {{promoted}}
select s.queue, (select now from clock), s.layout,
       coalesce((select true from jobs.worker where id = @worker and queue = s.queue and ended_at is null), false),
       (select count(*) from due),
       least(
         (select run_at from jobs.job where queue = s.queue and state = 2 and run_at > (select now from clock) order by run_at limit 1),
         (select run_at from jobs.job where queue = s.queue and state = 4 and run_at > (select now from clock) order by run_at limit 1)),
       s.priority_round, s.flow
from asked s order by s.ord
