-- enqueue_known.sql: list the IDs that must be refused because they have a record.
-- Params: @now µs|null, @queue, @ids
-- Returns: one row per such ID
-- Called by: (*Broker).Enqueue, for jobs that a full queue refuses
with {{clock}}, {{place}}
select id from jobs.job where queue = (select id from place) and id = any (@ids::text[])
union all
select id from jobs.dead where queue = (select id from place) and id = any (@ids::text[])
union all
select id from jobs.history where queue = (select id from place) and id = any (@ids::text[])
union all
select id from jobs.remembered
where queue = (select id from place) and id = any (@ids::text[]) and until > (select now from clock)
