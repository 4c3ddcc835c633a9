-- operate_unhold.sql: give held jobs back the state that they had; pending jobs go to the front.
-- Params: @queue, @ids, all of them locked, @self and @payload as in wake.sql
-- Returns: one row: the IDs, their states, nothing
-- Called by: (*Broker).Operate
with {{place}}, turn as materialized (
  -- In reverse, so that the first job of the request is claimed first.
  select o.id, nextval('jobs.job_seq') as seq
  from (select n.id from unnest(@ids::text[]) with ordinality as n(id, ord) order by n.ord desc) o
), back as (
  update jobs.job j set
    state = left(j.held, 1)::smallint, held = null, run_at = nullif(j.run_at, 0), epoch = coalesce(j.epoch, 0) + 1,
    seq = case when left(j.held, 1) = '1' then -n.seq else j.seq end,
    lane = case when left(j.held, 1) = '1' then j.lane / 2 * 2 else j.lane end
  from turn n
  where j.queue = (select id from place) and j.id = any (@ids) and j.id = n.id
  returning j.id, j.state, j.key
), called as (
  insert into jobs.call (queue, key)
  select place.id, b.key from place, (select distinct key from back where state = 1 and key is not null) b
), counted as (
  insert into jobs.count_delta (queue, pending, scheduled, retry, waiting)
  select (select id from place), count(*) filter (where state = 1), count(*) filter (where state = 2), count(*) filter (where state = 4),
         -count(*)
  from back
)
select array(select id from back), array(select state from back), ({{notified}})
