-- examine_unsettle.sql: remove the verdicts of a worker that is gone.
-- Params: @worker number of the worker
-- Returns: nothing
-- Called by: (*Broker).Examine
delete from jobs.settled where worker = @worker and not exists (select from jobs.worker where num = @worker)
