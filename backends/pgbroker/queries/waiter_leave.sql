-- waiter_leave.sql: remove a listener from the waiting processes, or all listeners that died, whose numbers are no longer locked.
-- Params: @self the listener, 0 for those that died
-- Returns: nothing
-- Called by: (*Broker).Close and (*Broker).Prune
delete from jobs.waiter
where listener = @self
  or @self = 0 and listener = any (array(select d.listener from (select distinct listener from jobs.waiter offset 0) d
                                         where pg_try_advisory_xact_lock_shared(1785684595, d.listener)))
