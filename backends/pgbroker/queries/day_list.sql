-- day_list.sql: list a day, so that records that expire on it go into its partition.
-- Params: @day
-- Returns: nothing
-- Called by: (*Broker).Prune, after the transaction that made the partition
insert into jobs.history_day (day) values (@day) on conflict do nothing
