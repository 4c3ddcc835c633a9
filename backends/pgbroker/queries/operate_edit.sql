-- operate_edit.sql: replace the stored body of a job; a dead one's epoch rises.
-- Params: $1 queue, $2 ID of a job that is locked, $3 body
-- Returns: nothing
-- Called by: (*Broker).Operate, in one transaction after operate_body.sql
with place as materialized (
  select id from jobs.queue where name = $1
), live as (
  update jobs.job set body = $3::bytea where queue = (select id from place) and id = $2::text
)
update jobs.dead set body = $3, epoch = epoch + 1 where queue = (select id from place) and id = $2
