-- notified.sql: notifies one process with a claim that waits for a queue, if there is one. It picks a process at random, but not this
-- one, and not one that died: the listener of a dead process no longer holds the lock on its number. If no process waits in a
-- transaction of the caller, it notifies number 0, to which all processes listen: a claim may begin to wait before the commit.
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
