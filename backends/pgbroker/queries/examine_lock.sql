-- examine_lock.sql: lock jobs that are not final, before they are read again and repaired.
-- Params: @ids
-- Returns: nothing
-- Called by: (*Broker).Examine, in one transaction before examine_jobs.sql
select from jobs.job where id = any (@ids::text[]) order by id, queue for update
