-- sieved.sql: whether a dead job d, the n-th of a page, may be one that is asked for. The last of a page says where the next one begins.
-- Params: @limit, @begins, @text, @type what the tail begins with, what is in it, and what is in the body
(d.n = @limit or substr(coalesce(d.tail, ''), 1, octet_length(@begins::bytea)) = @begins
   and (@text::bytea = '' or position(@text in coalesce(d.tail, '')) > 0) and (@type::bytea = '' or position(@type in d.body) > 0))
