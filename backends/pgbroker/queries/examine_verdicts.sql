-- examine_verdicts.sql: find verdicts of workers that are gone, in a page of verdicts.
-- Params: @worker number of a worker and @number after which the page begins, @limit
-- Returns: one row: how many were looked at, the last worker and number|null, the numbers of workers that are gone
-- Called by: (*Broker).Examine
with page as materialized (
  select worker, number from jobs.settled where (worker, number) > (@worker::bigint, @number::bigint) order by worker, number limit @limit
), gone as materialized (
  select p.worker from page p where not exists (select from jobs.worker w where w.num = p.worker)
)
select (select count(*) from page), (select worker from page order by worker desc, number desc limit 1),
       (select number from page order by worker desc, number desc limit 1), array(select distinct worker from gone)
