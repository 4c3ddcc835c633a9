-- find_dead_newest.sql: read a page of dead jobs, by time of death, the latest first.
-- Params: @queue, @died_at time of death and @id after which the page begins, @from time of death at which it ends, @limit,
--   @begins, @text, @type as in parts/sieved.sql
-- Returns: time of death, 0, and the other columns of foundRow, and whether it is the last one of a full page
-- Called by: (*Broker).Find
with page as materialized (
  select d.*, row_number() over (order by d.died_at desc, d.id desc) as n from jobs.dead d
  where d.queue = (select id from jobs.queue where name = @queue)
    and (d.died_at, d.id) < (@died_at::bigint, @id::text) and d.died_at >= @from
  order by d.died_at desc, d.id desc limit @limit)
{{sieved}}
