-- examine_unsettle.sql: remove the verdicts of a worker that is gone.
-- Params: $1 number of the worker
-- Returns: nothing
-- Called by: (*Broker).Examine
delete from jobs.settled where worker = $1 and not exists (select from jobs.worker where num = $1)
