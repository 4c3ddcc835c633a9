-- renew_pulse.sql: extend all leases of a worker in the queues that follow a pulse. In a store that was restored from a backup, another
-- worker may have the number of the pulse.
-- Params: @now µs|null, @worker, @pulse, @lease µs
-- Returns: one row, or none if the pulse is not the worker's or not intact any more: now
-- Called by: (*Broker).Renew
with {{clock}}
update jobs.pulse set until = (select now from clock) + @lease where num = @pulse and worker = @worker and intact
returning (select now from clock)
