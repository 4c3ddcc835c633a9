-- remembered.sql: remembers the IDs that callers gave, of the records that are gone.
-- Params: none
remembered as (
  insert into jobs.remembered (queue, id, until)
  select place.id, gone.id, clock.now + place.duplicate_span from clock, place, gone where gone.given
  on conflict (id, queue) do update set until = excluded.until, epoch = excluded.epoch, replaced = excluded.replaced
)
