-- claimable.sql: the shares that a claim may take from: their queues are served and not paused, and the worker is alive in them.
-- What else bounds a claim, such as a rate, belongs here: a share gives at most as many jobs as it says.
-- Params: @worker, @queues each once, @limits of each
share as materialized (
  select s.ord, s.most, q.id as queue, w.num as worker, q.priority_round
  from unnest(@queues::text[], @limits::int[]) with ordinality as s(name, most, ord)
  cross join lateral (select id, priority_round from jobs.queue where name = s.name and layout <= 1 and not paused limit 1) q
  cross join lateral (select num from jobs.worker where queue = q.id and id = @worker and ended_at is null limit 1 for key share) w
)
