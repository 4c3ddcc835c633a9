-- operate_suppress.sql: suppress dead jobs, or undo that; replace their tails.
-- Params: @queue, @ids, all of them locked, @tails, @suppressed whether they are suppressed
-- Returns: nothing
-- Called by: (*Broker).Operate
with {{place}}, changed as materialized (
  select count(*) as n from jobs.dead
  where queue = (select id from place) and id = any (@ids::text[]) and suppressed is distinct from nullif(@suppressed::boolean, false)
), noted as (
  update jobs.dead d set tail = nullif(n.tail, ''), suppressed = nullif(@suppressed, false) from unnest(@ids, @tails::bytea[]) as n(id,
    tail)
  where d.queue = (select id from place) and d.id = any (@ids) and d.id = n.id
)
insert into jobs.count_total as t (queue, suppressed) select place.id, case when @suppressed then n else -n end from place, changed
  where n > 0
on conflict (queue) do update set suppressed = t.suppressed + excluded.suppressed
