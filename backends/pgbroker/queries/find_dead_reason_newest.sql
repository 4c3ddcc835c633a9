-- find_dead_reason_newest.sql: read a page of the dead jobs of a reason, by time of death, the latest first.
-- Params: @queue, @died_at time of death and @id after which the page begins, @from time of death at which it ends, @limit,
--   @begins, @text, @type as in parts/sieved.sql
-- Returns: time of death, 0, and the other columns of foundRow, and whether it is the last one of a full page
-- Called by: (*Broker).Find
with last as materialized (
  select d.died_at, d.id from jobs.dead d
  where d.queue = (select id from jobs.queue where name = @queue) and substr(d.tail, 1, 2) = @begins
    and (d.died_at, d.id) < (@died_at::bigint, @id::text) and d.died_at >= @from
  order by d.died_at desc, d.id desc limit 1 offset @limit - 1)
{{sieved}}
  and d.queue = (select id from jobs.queue where name = @queue) and substr(d.tail, 1, 2) = @begins
  and (d.died_at, d.id) < (@died_at::bigint, @id::text)
  and (d.died_at, d.id) >= (coalesce((select died_at from last), @from), coalesce((select id from last), ''))
order by d.died_at desc, d.id desc
