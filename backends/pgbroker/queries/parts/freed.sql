-- freed.sql: frees the unique keys of the jobs that ended, apart from windows.
-- Params: none
freed as (
  delete from jobs.unique_key u
  where u.queue = (select id from place) and u.key = any (array(select unique_key from ended where unique_key is not null))
    and u.job = any (array(select id from ended where unique_key is not null)) and u.mode <> 2
)
