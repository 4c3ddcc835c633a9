-- differing.sql: by how much the stored counts of queues are too low, in one snapshot.
-- Params: @queue name of a queue|null for all, @floor of the deltas of counts
place as materialized (
  select id, name from jobs.queue where layout <= 1 and (@queue::text is null or name = @queue)
), counted as materialized (
  select queue, sum(pending) as pending, sum(scheduled) as scheduled, sum(active) as active, sum(retry) as retry,
         sum(completed) as completed, sum(dead) as dead, sum(cancelled) as cancelled, sum(waiting) as waiting, sum(bytes) as bytes
  from (select queue, pending, scheduled, active, retry, completed, dead, cancelled, waiting, bytes from jobs.count_total
        union all select queue, pending, scheduled, active, retry, completed, dead, cancelled, waiting, bytes from jobs.count_delta
        where n > @floor) c
  group by queue
), there as materialized (
  select queue, state, count(*) as n, sum(octet_length(body)) as bytes from jobs.job
  where @queue is null or queue = (select id from place) group by queue, state
  union all
  select queue, 6::smallint, count(*), null from jobs.dead where @queue is null or queue = (select id from place) group by queue
  union all
  select queue, state, count(*), null from jobs.history where @queue is null or queue = (select id from place) group by queue, state
), differing as materialized (
  select p.id as queue, p.name,
         (coalesce((select sum(n) from there where queue = p.id and state = 1), 0) - coalesce(c.pending, 0))::bigint as pending,
         (coalesce((select sum(n) from there where queue = p.id and state = 2), 0) - coalesce(c.scheduled, 0))::bigint as scheduled,
         (coalesce((select sum(n) from there where queue = p.id and state = 3), 0) - coalesce(c.active, 0))::bigint as active,
         (coalesce((select sum(n) from there where queue = p.id and state = 4), 0) - coalesce(c.retry, 0))::bigint as retry,
         (coalesce((select sum(n) from there where queue = p.id and state = 5), 0) - coalesce(c.completed, 0))::bigint as completed,
         (coalesce((select sum(n) from there where queue = p.id and state = 6), 0) - coalesce(c.dead, 0))::bigint as dead,
         (coalesce((select sum(n) from there where queue = p.id and state = 7), 0) - coalesce(c.cancelled, 0))::bigint as cancelled,
         (coalesce((select sum(n) from there where queue = p.id and state = 8), 0) - coalesce(c.waiting, 0))::bigint as waiting,
         ((select count(*) from jobs.dead where queue = p.id and suppressed)
           - coalesce((select suppressed from jobs.count_total where queue = p.id), 0))::bigint as suppressed,
         (coalesce((select sum(bytes) from there where queue = p.id and state <> 3), 0) - coalesce(c.bytes, 0))::bigint as bytes
  from place p left join counted c on c.queue = p.id
)
