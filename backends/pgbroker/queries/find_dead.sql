-- find_dead.sql: a page of dead jobs, by death.
-- Params: $1 queue, $2 time of death and $3 ID after which the page begins, $4 time before which it ends, $5 limit
-- Returns: time of death, 0, and the other columns of foundRow
-- Called by: (*Broker).Find
select d.died_at, 0::bigint, 6::smallint, null::bigint, d.died_at, null::boolean, null::text,
       d.id, d.created_at, d.epoch, d.deliveries, d.failures, d.crashes, d.snoozes, d.tail, d.body
from jobs.dead d
where d.queue = (select id from jobs.queue where name = $1) and (d.died_at, d.id) > ($2::bigint, $3::text) and d.died_at < $4
order by d.died_at, d.id limit $5
