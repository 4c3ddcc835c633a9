-- enqueue_known.sql: list the IDs that must be refused because they have a record. A job that was moved to another store may come back
-- with a higher epoch.
-- Params: @now µs|null, @queue, @ids, @epochs in the other store, 0 for new jobs, @stored those that this transaction stored|null
-- Returns: one row per such ID: ID, column held of the job|null
-- Called by: (*Broker).Enqueue, in one transaction after restore.sql, with a later snapshot, which shows jobs that ended
--   while that waited for their IDs; and for jobs that a full queue refuses
with {{clock}}, {{place}}
select j.id, j.held from jobs.job j
where j.queue = (select id from place) and j.id = any (@ids::text[]) and (@stored::text[] is null or j.id <> all (@stored))
union all
select id, null from jobs.dead where queue = (select id from place) and id = any (@ids::text[])
union all
select id, null from jobs.history where queue = (select id from place) and id = any (@ids::text[])
union all
select r.id, null from jobs.remembered r join unnest(@ids::text[], @epochs::bigint[]) as n(id, epoch) on n.id = r.id
where r.queue = (select id from place) and r.id = any (@ids) and r.until > (select now from clock)
  and (r.epoch is null or n.epoch <= r.epoch)
