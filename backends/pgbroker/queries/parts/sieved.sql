-- sieved.sql: the jobs that may match the query, in a page of dead jobs that the conditions after this part describe. It always includes
-- the last job of a full page, since that says where the next page begins; the statement has found that job in the index, as "last".
-- Params: @begins, @text, @type what the tail begins with, what it contains, and what the body contains
select d.died_at, 0::bigint, 6::smallint, null::bigint, d.died_at, null::boolean, null::text,
       d.id, d.created_at, d.epoch, d.deliveries, d.failures, d.crashes, d.snoozes, d.tail, d.body,
       coalesce(d.id = (select id from last), false)
from jobs.dead d
where (d.id = (select id from last)
   or (@text::bytea = '' or position(@text in d.tail) > 0)
   and (@begins::bytea = '' or substr(d.tail, 1, octet_length(@begins)) = @begins) and (@type::bytea = '' or position(@type in d.body) > 0))
