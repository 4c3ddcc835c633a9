-- renew_apart.sql: let no renewal go by the pulse of a worker any more. Those who change which queues follow it, or
-- whether the worker is alive there, call this first: the lock keeps them apart.
-- Params: @worker
-- Returns: nothing
-- Called by: (*Broker).Renew, (*Broker).Retire, in one transaction before the change
update jobs.pulse set intact = false where worker = @worker and intact
