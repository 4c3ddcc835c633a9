-- operate_reschedule.sql: give scheduled, retry and pending jobs a new time.
-- Params: @now µs|null, @queue, @ids, all of them locked, @run_at run time µs|null, @delay µs, @self and @payload as in wake.sql
-- Returns: one row: the IDs, their states, nothing
-- Called by: (*Broker).Operate
with {{clock}}, due as materialized (
  select now, coalesce(@run_at::bigint, now + @delay) as due from clock
), turn as materialized (
  select o.id, nextval('jobs.job_seq') as seq
  from (select n.id from unnest(@ids::text[]) with ordinality as n(id, ord) order by n.ord) o
), moved as (
  update jobs.job j set
    state = case when due.due <= due.now then 1 when j.state = 4 then 4 else 2 end,
    run_at = case when due.due > due.now then due.due end,
    seq = n.seq, lane = j.lane / 2 * 2 + 1, epoch = coalesce(j.epoch, 0) + 1
  from due, turn n
  where j.queue = (select id from jobs.queue where name = @queue) and j.id = any (@ids) and j.id = n.id
  returning j.id, j.state, j.key
), called as (
  insert into jobs.call (queue, key)
  select q.id, m.key from jobs.queue q, (select distinct key from moved where state = 1 and key is not null) m where q.name = @queue
), counted as (
  -- The old states are those in the statement's snapshot; they are still right, since the jobs are locked.
  insert into jobs.count_delta (queue, pending, scheduled, retry)
  select j.queue,
         count(*) filter (where m.state = 1) - count(*) filter (where j.state = 1),
         count(*) filter (where m.state = 2) - count(*) filter (where j.state = 2),
         count(*) filter (where m.state = 4) - count(*) filter (where j.state = 4)
  from moved m join jobs.job j on j.queue = (select id from jobs.queue where name = @queue) and j.id = any (@ids)
    and j.id = m.id group by j.queue
)
select array(select id from moved), array(select state from moved), ({{notified}})
