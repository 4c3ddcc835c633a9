-- sieved.sql: whether dead job d, the n-th of a page, may match the query. The last one of a page always passes: it says where the next
-- page begins.
-- Params: @limit, @begins, @text, @type what the tail begins with, what it contains, and what the body contains
(d.n = @limit or substr(coalesce(d.tail, ''), 1, octet_length(@begins::bytea)) = @begins
   and (@text::bytea = '' or position(@text in coalesce(d.tail, '')) > 0) and (@type::bytea = '' or position(@type in d.body) > 0))
