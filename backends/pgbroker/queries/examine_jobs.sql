-- examine_jobs.sql: read a page of jobs that are not final, in one snapshot.
-- Params: @id and @queue number of a queue after which the page begins, @limit, @ids|null: these jobs instead of a page
-- Returns: one row per job, in the order of the page: the columns of jobFacts
-- Called by: (*Broker).Examine
with page as materialized (
  select p.* from (
    select * from jobs.job where @ids::text[] is null and (id, queue) > (@id::text, @queue::int) order by id, queue limit @limit) p
  union all
  select j.* from jobs.job j where @ids is not null and j.id = any (@ids)
)
select p.id, p.queue, q.name, coalesce(q.layout, 0), p.state, p.run_at, p.held, p.worker, p.lane,
       coalesce(p.epoch, 0), coalesce(p.deliveries, 0), p.created_at,
       coalesce(w.queue = p.queue, false), coalesce(w.drained, false), coalesce(w.id, ''),
       (select d.epoch from jobs.dead d where d.id = p.id and d.queue = p.queue),
       (select max(h.epoch) from jobs.history h where h.id = p.id and h.queue = p.queue),
       p.unique_key, u.job, u.until, case when p.unique_key is not null and u.job is distinct from p.id then substring(p.body
         from 1 for 4096) end,
       p.state <> 1 or p.key is null or p.lane not between 2 and 9 or (p.queue, p.key) in (select queue, key from jobs.call)
         or exists (select from jobs.key k where k.queue = p.queue and k.name = p.key and (k.blocked is not null or k.pass[p.lane / 2]
           is not null)),
       q.name is null and not exists (select from jobs.job o where o.queue = p.queue and o.id < p.id)
from page p
left join lateral (select name, layout from jobs.queue where id = p.queue limit 1) q on true
left join lateral (select id, queue, drained from jobs.worker where num = p.worker limit 1) w on true
left join lateral (select job, until from jobs.unique_key where key = p.unique_key and queue = p.queue limit 1) u on true
order by p.id, p.queue
