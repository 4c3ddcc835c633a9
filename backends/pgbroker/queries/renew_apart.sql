-- renew_apart.sql: mark the pulse of a worker as not intact, so that no renewal relies on it. A transaction that changes which
-- queues follow the pulse, or whether the worker is alive there, begins with this: the lock lets only one such transaction run.
-- Params: @worker
-- Returns: nothing
-- Called by: (*Broker).Renew, (*Broker).Retire, in one transaction before the change
update jobs.pulse set intact = false where worker = @worker and intact
