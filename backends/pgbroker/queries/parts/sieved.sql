-- sieved.sql: the jobs that may match the query, of a page of dead jobs, and its last job if it is full, since that says where the next
-- page begins.
-- Params: @limit, @begins, @text, @type what the tail begins with, what it contains, and what the body contains
select d.died_at, 0::bigint, 6::smallint, null::bigint, d.died_at, null::boolean, null::text,
       d.id, d.created_at, d.epoch, d.deliveries, d.failures, d.crashes, d.snoozes, d.tail, d.body, d.n = @limit::bigint
from page d
where d.n = @limit or (@text::bytea = '' or position(@text in d.tail) > 0)
  and (@begins::bytea = '' or substr(d.tail, 1, octet_length(@begins)) = @begins) and (@type::bytea = '' or position(@type in d.body) > 0)
order by d.n
