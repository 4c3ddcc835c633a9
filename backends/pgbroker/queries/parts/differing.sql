-- differing.sql: by how much the stored counts of queues are too low, in one snapshot.
-- Params: @queue name of a queue|null for all, @floor of the deltas of counts
place as materialized (
  select id, name from jobs.queue where layout <= 1 and (@queue::text is null or name = @queue)
), differing as materialized (
  select p.id as queue, p.name, coalesce(sum(c.pending), 0)::bigint as pending, coalesce(sum(c.scheduled), 0)::bigint as scheduled,
         coalesce(sum(c.active), 0)::bigint as active, coalesce(sum(c.retry), 0)::bigint as retry,
         coalesce(sum(c.completed), 0)::bigint as completed, coalesce(sum(c.dead), 0)::bigint as dead,
         coalesce(sum(c.cancelled), 0)::bigint as cancelled, coalesce(sum(c.waiting), 0)::bigint as waiting,
         coalesce(sum(c.suppressed), 0)::bigint as suppressed, coalesce(sum(c.bytes), 0)::bigint as bytes
  from place p left join (
    select queue, -pending, -scheduled, -active, -retry, -completed, -dead, -cancelled, -waiting, -suppressed, -bytes from jobs.count_total
    union all
    select queue, -pending, -scheduled, -active, -retry, -completed, -dead, -cancelled, -waiting, 0, -bytes from jobs.count_delta
    where n > @floor
    union all
    select queue, count(*) filter (where state = 1), count(*) filter (where state = 2), count(*) filter (where state = 3),
           count(*) filter (where state = 4), 0, 0, 0, count(*) filter (where state = 8), 0,
           sum(octet_length(body)) filter (where state <> 3)
    from jobs.job where @queue is null or queue = (select id from place) group by queue
    union all
    select queue, 0, 0, 0, 0, 0, count(*), 0, 0, count(*) filter (where suppressed), 0
    from jobs.dead where @queue is null or queue = (select id from place) group by queue
    union all
    select queue, 0, 0, 0, 0, count(*) filter (where state = 5), 0, count(*) filter (where state = 7), 0, 0, 0
    from jobs.history where @queue is null or queue = (select id from place) group by queue
  ) c(queue, pending, scheduled, active, retry, completed, dead, cancelled, waiting, suppressed, bytes) on c.queue = p.id
  group by p.id, p.name
)
