-- flow_retry.sql: make due jobs in retry pending, as claim_due.sql does, but only as many as the rate of retries allows.
-- Params: @now µs|null, @queue, @most
-- Returns: one row, none when the queue has no such rate: how many, when the next one may|null
-- Called by: (*Broker).Claim, in one transaction after flow_limit.sql
with place as materialized (
  select id, (policy->>'retry_rate')::bigint as jobs, coalesce((policy->>'retry_rate_per')::bigint, 0) as per,
         coalesce((policy->>'retry_rate_burst')::bigint, 0) as burst,
         {{now}} as now
  from jobs.queue where name = @queue and layout <= 1 and flow & 4 > 0
), bucket as materialized (
  select f.*
  from place p cross join lateral (select retry_at, retry_used from jobs.limiter where queue = p.id limit 1) l
  cross join lateral (select l.retry_at as at, l.retry_used as used, p.jobs, p.per, p.burst, p.now) b
  cross join lateral ({{bucket}}) f
), due as materialized (
  select id, run_at, seq, queue, key from jobs.job j
  where j.queue = (select id from place) and j.state = 4 and j.run_at <= (select now from place)
  order by j.run_at, j.seq limit (select least(free, @most::bigint) from bucket) for update skip locked
), counted as (
  insert into jobs.count_delta (queue, pending, retry) select queue, count(*), -count(*) from due group by queue
), {{promoted}}, spent as (
  update jobs.limiter l set retry_at = b.at, retry_used = b.used + (select count(*) from due) from bucket b
  where l.queue = (select id from place) and exists (select from due)
)
select (select count(*) from due),
       case when exists (select from jobs.job where queue = p.id and state = 4 and run_at is not null and run_at <= p.now
                         order by run_at offset (select count(*) from due) limit 1)
         then b.at + ((b.used + (select count(*) from due) + 1) * p.per + p.jobs - 1) / p.jobs end
from place p, bucket b
