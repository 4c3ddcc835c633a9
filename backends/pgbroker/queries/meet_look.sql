-- meet_look.sql: read which job holds a unique key, and whether the new job has a record already.
-- It is a second statement because its snapshot shows what happened while meet_lock.sql waited.
-- Params: @now µs|null, @queue, @key, @id of the new job, @behind the prefix of column held in a job that waits behind another one
-- Returns: one row: now, the queue's policy if it limits what an enqueue may store|null, whether the ID has a record, the job that an
--   earlier enqueue with this ID replaced|null, the holder|null, the mode of its hold, the job behind the holder|null
-- Called by: (*Broker).Enqueue, in one transaction after meet_lock.sql
with {{clock}}, place as materialized (
  select id, case when bounded then policy end as policy from jobs.queue where name = @queue and layout <= 1
), remembered as materialized (
  select replaced from jobs.remembered where queue = (select id from place) and id = @id::text and until > (select now from clock)
)
select clock.now, (select policy from place), exists (select from jobs.job where queue = (select id from place) and id = @id)
         or exists (select from jobs.dead where queue = (select id from place) and id = @id)
         or exists (select from jobs.history where queue = (select id from place) and id = @id)
         or exists (select from remembered),
       (select replaced from remembered), u.job, coalesce(u.mode, 0), b.id
from clock
left join lateral (
  select * from jobs.unique_key
  where queue = (select id from place) and key = @key::text and (until is null or until > clock.now) limit 1) u on true
left join lateral (
  select j.id from jobs.job j
  where j.queue = u.queue and j.id = u.next and j.state = 8 and substr(j.held, 3) = @behind::text || u.job limit 1) b on true
