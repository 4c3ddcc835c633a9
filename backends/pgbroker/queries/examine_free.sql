-- examine_free.sql: free a unique key that its holder has no right to, if that is so still. The holder's row is locked first,
-- so that nothing becomes of it meanwhile.
-- Params: $1 key, $2 number of its queue, $3 holder
-- Returns: nothing
-- Called by: (*Broker).Examine
with holder as materialized (
  select state, unique_key from jobs.job where id = $3 and queue = $2 for update
)
delete from jobs.unique_key u
where u.key = $1 and u.queue = $2 and u.job = $3
  and (not exists (select from jobs.queue where id = $2)
    or u.mode = 2 and u.until is null
    or u.mode <> 2 and not exists (select from holder h where h.unique_key = u.key and not (u.mode = 1 and h.state = 3)))
