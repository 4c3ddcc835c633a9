-- sieved.sql: whether dead job d may match the query. The last one of a page always passes: it says where the next page begins.
-- Params: @begins, @text, @type what the tail begins with, what it contains, and what the body contains
(d.id = (select id from last)
   or (@text::bytea = '' or position(@text in d.tail) > 0)
   and (@begins::bytea = '' or substr(d.tail, 1, octet_length(@begins)) = @begins) and (@type::bytea = '' or position(@type in d.body) > 0))
