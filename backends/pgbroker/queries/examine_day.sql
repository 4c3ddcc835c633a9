-- examine_day.sql: list a day, or take it off the list.
-- Params: $1 day, $2 whether it is to be listed
-- Returns: nothing
-- Called by: (*Broker).Examine
with off as (
  delete from jobs.history_day where day = $1 and not $2
)
insert into jobs.history_day (day) select $1 where $2 on conflict do nothing
