-- examine_free.sql: free a unique key that its holder must not hold, if that is still so. It locks the holder's row first, so that
-- the row cannot change meanwhile.
-- Params: @key, @queue number of its queue, @holder
-- Returns: nothing
-- Called by: (*Broker).Examine
with holder as materialized (
  select state, unique_key from jobs.job where id = @holder and queue = @queue for update
)
delete from jobs.unique_key u
where u.key = @key and u.queue = @queue and u.job = @holder
  and (not exists (select from jobs.queue where id = @queue)
    or u.mode = 2 and u.until is null
    or u.mode <> 2 and not exists (select from holder h where h.unique_key = u.key and not (u.mode = 1 and h.state = 3)))
