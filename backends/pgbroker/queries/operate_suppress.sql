-- operate_suppress.sql: take dead jobs out of default lists, or bring them back: replace what they carry.
-- Params: $1 queue, $2 IDs, all of them locked, $3 tails, $4 whether they are suppressed
-- Returns: nothing
-- Called by: (*Broker).Operate
with place as materialized (
  select id from jobs.queue where name = $1
), changed as materialized (
  select count(*) as n from jobs.dead
  where queue = (select id from place) and id = any ($2::text[]) and suppressed is distinct from nullif($4::boolean, false)
), noted as (
  update jobs.dead d set tail = nullif(n.tail, ''), suppressed = nullif($4, false) from unnest($2, $3::bytea[]) as n(id, tail)
  where d.queue = (select id from place) and d.id = any ($2) and d.id = n.id
)
insert into jobs.count_total as t (queue, suppressed) select place.id, case when $4 then n else -n end from place, changed where n > 0
on conflict (queue) do update set suppressed = t.suppressed + excluded.suppressed
