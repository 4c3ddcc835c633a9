-- claimable.sql: the shares from which a claim may take: their queues are served and not paused, and the worker is alive in them.
-- It leaves out queues with keys or limits, which other statements serve, and all shares after such a queue, which come after it.
-- Params: @worker, @queues each once, @limits of each
share as materialized (
  select ord, most, queue, worker, priority_round
  from (
    select s.ord, s.most, s.queue, w.num as worker, s.priority_round, bool_or(s.flow > 0) over (order by s.ord) as behind
    from (
      select n.ord, n.most, q.id as queue, q.priority_round, q.flow
      from unnest(@queues::text[], @limits::int[]) with ordinality as n(name, most, ord)
      cross join lateral (select id, priority_round, flow from jobs.queue where name = n.name and layout <= 1 and not paused limit 1) q
      order by q.id) s -- the order of the locks
    cross join lateral (select num from jobs.worker where queue = s.queue and id = @worker and ended_at is null limit 1 for key share) w) a
  where not behind
)
