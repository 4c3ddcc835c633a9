-- examine_day.sql: add a day to the list of days, or remove it.
-- Params: @day, @listed whether it is to be listed
-- Returns: nothing
-- Called by: (*Broker).Examine
with off as (
  delete from jobs.history_day where day = @day and not @listed
)
insert into jobs.history_day (day) select @day where @listed on conflict do nothing
