-- find_dead_type.sql: read a page of the dead jobs of a type, by time of death.
-- Params: @queue, @died_at time of death and @id after which the page begins, @until time before which it ends, @limit,
--   @begins, @text, @type as in parts/sieved.sql
-- Returns: time of death, 0, and the other columns of foundRow, and whether it is the last one of a full page
-- Called by: (*Broker).Find
with page as not materialized (
  select d.* from jobs.dead d
  where d.queue = (select id from jobs.queue where name = @queue) and jobs.type_of(d.body) = @type
    and (d.died_at, d.id) > (@died_at::bigint, @id::text)
    and d.died_at < @until
  order by d.died_at, d.id limit @limit),
{{last_of_page}}
select d.died_at, 0::bigint, 6::smallint, null::bigint, d.died_at, null::boolean, null::text,
       d.id, d.created_at, d.epoch, d.deliveries, d.failures, d.crashes, d.snoozes, d.tail, d.body,
       coalesce(d.id = (select id from last), false)
from page d
where {{sieved}}
order by d.died_at, d.id
