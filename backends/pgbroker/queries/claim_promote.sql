-- claim_promote.sql: make due jobs pending, by due time, behind those that are pending already.
-- Params: $1 now µs|null, $2 queues, each once, $3 limit for each queue and state
-- Returns: one row: how many
-- Called by: (*Broker).Claim, in one transaction before claim.sql
with clock as materialized (
  select coalesce($1::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
), due as materialized (
  select d.id, d.run_at, d.seq, d.queue, d.state
  from clock cross join unnest($2::text[]) as n(name)
  cross join lateral (select id from jobs.queue where name = n.name and layout <= 1 limit 1) q cross join (values (2::smallint), (4::smallint)) as s(state)
  cross join lateral (
    select id, run_at, seq, queue, state from jobs.job j
    where j.queue = q.id and j.state = s.state and j.run_at <= clock.now
    order by j.run_at, j.seq limit $3 for update skip locked) d
), turn as materialized (
  -- Row locks gave the transaction its ID before the first seq, as the scan floor asks.
  select o.queue, o.id, nextval('jobs.job_seq') as seq from (select queue, id from due order by run_at, seq) o
), counted as (
  insert into jobs.count_delta (queue, pending, scheduled, retry)
  select queue, count(*), -count(*) filter (where state = 2), -count(*) filter (where state = 4) from due group by queue
), promoted as (
  update jobs.job j set state = 1, seq = t.seq, run_at = null 
  from turn t
  where j.queue = any (array(select distinct queue from turn)) and j.id = any (array(select id from turn)) and j.queue = t.queue and j.id = t.id
  returning 1
)
select count(*) from promoted
