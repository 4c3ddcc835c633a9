-- mark_read.sql: read a mark.
-- Params: @now µs|null, @name
-- Returns: the columns of a mark, no row when the mark is free
-- Called by: (*Broker).Mark
select owner, fence, value, until from jobs.mark
where name = @name and until > {{now}}
