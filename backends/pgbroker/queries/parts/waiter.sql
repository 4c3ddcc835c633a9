-- waiter.sql: listeners of processes in which a claim waits for a queue, from a random one on, without this process's own and without
-- those of processes that died: a listener holds a lock of its number.
-- Params: @queue, @self this process's listener, 0 for none
select n.listener
from jobs.queue q cross join (select (random() * 2147483647)::bigint as first) f
cross join lateral (
  (select listener from jobs.waiter where queue = q.id and listener >= f.first order by listener limit 100)
  union all
  (select listener from jobs.waiter where queue = q.id and listener < f.first order by listener limit 100)) n
where q.name = @queue and n.listener <> @self and not pg_try_advisory_xact_lock_shared(1785684595, n.listener)
