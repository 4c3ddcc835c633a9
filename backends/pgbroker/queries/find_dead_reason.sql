-- find_dead_reason.sql: read a page of the dead jobs of a reason, by time of death.
-- Params: @queue, @died_at time of death and @id after which the page begins, @until time before which it ends, @limit,
--   @begins, @text, @type as in parts/sieved.sql
-- Returns: time of death, 0, and the other columns of foundRow, and whether it is the last one of a full page
-- Called by: (*Broker).Find
with page as materialized (
  select d.*, row_number() over (order by d.died_at, d.id) as n from jobs.dead d
  where d.queue = (select id from jobs.queue where name = @queue) and substr(d.tail, 1, 2) = @begins
    and (d.died_at, d.id) > (@died_at::bigint, @id::text) and d.died_at < @until
  order by d.died_at, d.id limit @limit)
{{sieved}}
