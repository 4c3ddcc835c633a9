-- examine_verdicts.sql: read a page of the verdicts of settles.
-- Params: @worker number of a worker and @number after which the page begins, @limit
-- Returns: one row per settle, in the order of the page: its number, that of its worker, whether it is the first of a worker that is gone
-- Called by: (*Broker).Examine
select p.number, p.worker, not exists (select from jobs.worker w where w.num = p.worker)
  and not exists (select from jobs.settled s where s.worker = p.worker and s.number < p.number)
from (select worker, number from jobs.settled where (worker, number) > (@worker::bigint, @number::bigint)
      order by worker, number limit @limit) p
order by p.worker, p.number
