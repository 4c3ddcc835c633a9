-- enqueue_known.sql: say which IDs are refused because there is a record of them.
-- Params: $1 now µs|null, $2 queue, $3 IDs
-- Returns: one row per such ID
-- Called by: (*Broker).Enqueue, of jobs that a full queue turns away
with clock as materialized (
  select coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
), place as materialized (
  select id from jobs.queue where name = $2
)
select id from jobs.job where queue = (select id from place) and id = any ($3::text[])
union all
select id from jobs.dead where queue = (select id from place) and id = any ($3::text[])
union all
select id from jobs.history where queue = (select id from place) and id = any ($3::text[])
union all
select id from jobs.remembered
where queue = (select id from place) and id = any ($3::text[]) and until > (select now from clock)
