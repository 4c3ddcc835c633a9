-- queues.sql: describe queues, by name.
-- Params: @queues names|null for all, @floor of the deltas of counts, @known queues whose oldest jobs are searched from a position on,
--   @from for each of them the positions: of the lanes 2 to 9, by seq, and of scheduled, retry, completed, dead and cancelled jobs, by time
-- Returns: one row per queue: columns of queueRow
-- Called by: (*Broker).Queues
with delta as materialized (
  select queue, sum(pending) as pending, sum(scheduled) as scheduled, sum(active) as active, sum(retry) as retry,
         sum(completed) as completed, sum(dead) as dead, sum(cancelled) as cancelled,
         coalesce(sum(waiting), 0) as waiting, sum(bytes) as bytes,
         array[coalesce(sum(enqueued), 0), sum(greatest(active, 0)), coalesce(sum(done), 0), coalesce(sum(failed), 0),
           coalesce(sum(retried), 0), coalesce(sum(died), 0), coalesce(sum(crashed), 0), coalesce(sum(dropped), 0),
           coalesce(sum(expired), 0), coalesce(sum(waits), 0), least(coalesce(sum(waited), 0), 4e18), coalesce(sum(runs), 0),
           least(coalesce(sum(ran), 0), 4e18)]::bigint[] as happened
  from jobs.count_delta where n > @floor group by queue
)
select q.name, q.layout, q.policy,
       (coalesce(t.pending, 0) + coalesce(d.pending, 0))::bigint, (coalesce(t.scheduled, 0) + coalesce(d.scheduled, 0))::bigint,
       (coalesce(t.active, 0) + coalesce(d.active, 0))::bigint, (coalesce(t.retry, 0) + coalesce(d.retry, 0))::bigint,
       (coalesce(t.completed, 0) + coalesce(d.completed, 0))::bigint, (coalesce(t.dead, 0) + coalesce(d.dead, 0))::bigint,
       (coalesce(t.cancelled, 0) + coalesce(d.cancelled, 0))::bigint,
       (coalesce(t.waiting, 0) + coalesce(d.waiting, 0))::bigint, coalesce(t.suppressed, 0),
       (coalesce(t.bytes, 0) + coalesce(d.bytes, 0))::bigint,
       array[t.enqueued, t.claimed, t.done, t.failed, t.retried, t.died, t.crashed, t.dropped, t.expired, t.waits, t.waited, t.runs, t.ran],
       d.happened, ahead.created, ahead.seqs || array[
         (select run_at from jobs.job where queue = q.id and state = 2 and run_at > f.at[9] order by run_at limit 1),
         (select run_at from jobs.job where queue = q.id and state = 4 and run_at > f.at[10] order by run_at limit 1),
         (select finished_at from jobs.history where queue = q.id and state = 5 and finished_at > f.at[11] order by finished_at limit 1),
         (select died_at from jobs.dead where queue = q.id and died_at > f.at[12] order by died_at limit 1),
         (select finished_at from jobs.history where queue = q.id and state = 7 and finished_at > f.at[13] order by finished_at limit 1)],
       (select last_value from jobs.job_seq), (extract(epoch from clock_timestamp() - statement_timestamp()) * 1000000)::bigint
from jobs.queue q left join jobs.count_total t on t.queue = q.id left join delta d on d.queue = q.id
cross join lateral (
  select coalesce(
    (select (@from::bigint[])[13 * k - 12:13 * k] from generate_subscripts(@known::text[], 1) k where (@known::text[])[k] = q.name limit 1),
    array_fill(-9223372036854775807, array[13])) as at offset 0) f
cross join lateral (
  -- Among jobs with a key, this finds the job that became pending first, not the job whose turn is next.
  select array_agg(case when k.seq < j.seq or j.seq is null then k.seq else j.seq end order by l.lane) as seqs,
         array_agg(case when k.seq < j.seq or j.seq is null then k.created_at else j.created_at end order by l.lane) as created
  from generate_series(2, 9) as l(lane) left join lateral (
    select seq, created_at from jobs.job
    where state = 1 and key is null and queue = q.id and lane = l.lane::smallint and seq > f.at[l.lane - 1] order by seq limit 1) j on true
  left join lateral (
    select seq, created_at from jobs.job
    where q.keyed and state = 1 and key <> '' and queue = q.id and lane = l.lane::smallint and seq > f.at[l.lane - 1]
    order by seq limit 1) k on true) ahead
where @queues::text[] is null or q.name = any (@queues)
order by q.name
