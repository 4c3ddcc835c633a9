-- sieved.sql: of the page of dead jobs that precedes it, those that may match the query. The last one of a full page is always among
-- them, as it says where the next page begins; it is read from the index alone, at less cost than to number the records.
-- Params: @limit, @begins, @text, @type what the tail begins with, what it contains, and what the body contains
last as materialized (select id from page offset @limit - 1)
select d.died_at, 0::bigint, 6::smallint, null::bigint, d.died_at, null::boolean, null::text,
       d.id, d.created_at, d.epoch, d.deliveries, d.failures, d.crashes, d.snoozes, d.tail, d.body,
       coalesce(d.id = (select id from last), false)
from page d
where (d.id = (select id from last)
   or (@text::bytea = '' or position(@text in d.tail) > 0)
   and (@begins::bytea = '' or substr(d.tail, 1, octet_length(@begins)) = @begins) and (@type::bytea = '' or position(@type in d.body) > 0))
