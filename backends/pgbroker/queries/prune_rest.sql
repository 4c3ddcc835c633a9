-- prune_rest.sql: remove other rows of a queue that have lapsed: remembered IDs, unique windows, workers that ended a day ago,
-- keys whose rate has saved up a full burst.
-- Params: @now µs|null, @queue, @limit of each
-- Returns: one row: how many
-- Called by: (*Broker).Prune
with clock as materialized (
  select coalesce(@now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
), place as materialized (
  select id from jobs.queue where name = @queue and layout <= 1
), ids as (
  delete from jobs.remembered where ctid = any (array(
    select ctid from jobs.remembered where queue = (select id from place) and until <= (select now from clock)
    order by until limit @limit for update skip locked))
  returning 1
), windows as (
  delete from jobs.unique_key where ctid = any (array(
    select ctid from jobs.unique_key where queue = (select id from place) and mode = 2 and until <= (select now from clock)
    order by until limit @limit for update skip locked))
  returning 1
), workers as (
  delete from jobs.worker where ctid = any (array(
    select w.ctid from jobs.worker w
    where w.queue = (select id from place) and w.ended_at <= (select now from clock) - 86400000000
      and not exists (select from jobs.job j where j.worker = w.num)
    limit @limit for update skip locked))
  returning num
), keys as (
  delete from jobs.key where queue = (select id from place) and name = any (array(
    select name from jobs.key
    where queue = (select id from place) and blocked is null and until is not null and until <= (select now from clock)
      and pass is null and policy is null
    order by until limit @limit for update skip locked))
  returning 1
), verdicts as (
  delete from jobs.settled where worker = any (array(select num from workers))
)
select (select count(*) from ids) + (select count(*) from windows) + (select count(*) from workers)
  + (select count(*) from keys)
