-- count_look.sql: read whether many deltas of counts wait to be folded, and the values from which their floor is computed, in one
-- snapshot.
-- Params: @many how many are many, @floor
-- Returns: one row: whether there are that many, oldest running transaction, first transaction that has not begun, last number of a
--   delta, first delta above the floor|null
-- Called by: (*Broker).Queues, (*Broker).Prune, (*Broker).Enqueue
select (select count(*) from (select from jobs.count_delta where n > @floor order by n limit @many) d) >= @many,
       pg_snapshot_xmin(s.snapshot)::text::bigint, pg_snapshot_xmax(s.snapshot)::text::bigint, (select last_value
         from jobs.count_delta_n_seq),
       (select n from jobs.count_delta where n > @floor order by n limit 1)
from (select pg_current_snapshot() as snapshot offset 0) s
