-- operate_edit.sql: replace the stored body of a job. If the job is dead, raise its epoch.
-- Params: @queue, @id of a job that is locked, @body
-- Returns: nothing
-- Called by: (*Broker).Operate, in one transaction after operate_body.sql
with {{place}}, live as (
  update jobs.job set body = @body::bytea where queue = (select id from place) and id = @id::text
  returning octet_length(body) - (select octet_length(body) from jobs.job where queue = (select id from place) and id = @id) as more
), counted as (
  insert into jobs.count_delta (queue, bytes) select place.id, live.more from place, live where live.more <> 0
)
update jobs.dead set body = @body, epoch = epoch + 1 where queue = (select id from place) and id = @id
