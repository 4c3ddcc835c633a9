-- notified.sql: notifies one process in which a claim waits for a queue, if there is one: a random one, but neither this process nor
-- one that died, whose listener no longer holds the lock of its number. In a transaction of the caller's, if none waits, it notifies
-- number 0, which all processes listen to: a claim may begin to wait before the commit.
-- Params: @queue, @self this process's listener, 0 for none, -1 in a transaction of the caller's, @payload
select pg_notify('jobs.' || w.listener, @payload)::text
from (
  (select n.listener
   from jobs.queue q cross join (select (random() * 2147483647)::bigint as first) f
   cross join lateral (
     (select listener from jobs.waiter where queue = q.id and listener >= f.first order by listener limit 100)
     union all
     (select listener from jobs.waiter where queue = q.id and listener < f.first order by listener limit 100)) n
   where q.name = @queue and n.listener <> @self and not pg_try_advisory_xact_lock_shared(1785684595, n.listener))
  union all
  (select 0 where @self = -1)
  limit 1) w
