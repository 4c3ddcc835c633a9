-- last_of_page.sql: the last record of a page that is full, which says where the next one begins. It reads the index alone, at less
-- cost than to number the records.
-- Params: @limit
last as materialized (select id from page offset @limit - 1)
