-- started.sql: frees the unique keys that the leased jobs had only until they started, and counts the jobs.
-- Params: none
started as (
  delete from jobs.unique_key u
  where u.queue = any (array(select queue from share)) and u.key = any (array(select unique_key from leased where unique_key is not null))
    and u.mode = 1 and exists (select from leased l where l.queue = u.queue and l.unique_key = u.key and l.id = u.job)
), counted as (
  insert into jobs.count_delta (queue, pending, active, bytes)
  select queue, -count(*), count(*), -sum(octet_length(body)) from leased group by queue
)
