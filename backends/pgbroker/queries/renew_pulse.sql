-- renew_pulse.sql: extend all leases of a worker in the queues that follow a pulse.
-- Params: @now µs|null, @pulse, @lease µs
-- Returns: one row, or none if the pulse is not intact any more: now
-- Called by: (*Broker).Renew
with {{clock}}
update jobs.pulse set until = (select now from clock) + @lease where num = @pulse and intact
returning (select now from clock)
