-- flow_take.sql: lease pending jobs of a queue with keys: within a priority the job whose key has the lowest pass goes next.
-- Params: @now µs|null, @queue, @floors scan floors of the lanes 2 to 9,
--   @bytes at which the answers end, @passes of the jobs without a key, by priority
-- Returns: one row per job: number of its queue, 0, its turn, the other columns of claim.sql, its lane, whether it is without a key, the
--   lowest pass of its priority, whether jobs were locked that are not leased, and the time by which
--   rates counted the jobs|null
-- Called by: (*Broker).Claim, in one transaction after flow_lock.sql
with {{flow_keys}}, picked as materialized (
  select name, place, id, size, row_number() over () as turn,
         sum(size) over (rows unbounded preceding) - size + (select bytes from taken) as before
  from in_order where (select priority_round from share) = 0
), {{flow_lease}}
