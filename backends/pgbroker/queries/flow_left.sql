-- flow_left.sql: read whether more keys of a queue may have jobs to lease, and when the rate of a key next allows a start. If the queue
-- gave fewer jobs than it could, the claim takes nothing from the queues after it. If the claim may not take from the queue, the answer
-- is no.
-- Params: @now µs|null, @queue, @flow how it is served as far as the claim knows, @floor of the calls, @alone whether the claim locks and
--   takes nothing before this answer
-- Returns: one row, none when there is no such queue: whether, when|null, when the queue's own rate has room again|null, whether
--   jobs without a key are pending, whether others are, if that matters; for the floor of the calls, as in count_look.sql,
--   the oldest running transaction, the first one not begun, the last number, the first over the floor|null; nothing
-- Called by: (*Broker).Claim, in one transaction after flow_take.sql, or alone
with left_over as materialized (
select c.n is not null
    or exists (select from jobs.key where queue = q.id and pass[1] is not null)
    or exists (select from jobs.key where queue = q.id and pass[2] is not null)
    or exists (select from jobs.key where queue = q.id and pass[3] is not null)
    or exists (select from jobs.key where queue = q.id and pass[4] is not null)
    or exists (select from jobs.key where queue = q.id and blocked < q.changed) as has,
  (select until from jobs.key where queue = q.id and blocked is not null and until is not null order by until limit 1) as until,
  b.next,
  (select true from jobs.job where state = 1 and key is null and queue = q.id order by lane, seq limit 1) is not null as keyless,
  q.rate > 0 and (select true from jobs.job where state = 1 and key <> '' and queue = q.id order by lane, seq limit 1) is not null as keyed,
  c.n as first,
  q.id, {{unknown}}
from jobs.queue q
left join lateral (select n from jobs.call where queue = q.id and n > @floor order by n limit 1) c on true
left join lateral ({{room_again}}) b on true
where q.name = @queue
)
select l.has and s.served, l.until, l.next, l.keyless and s.served, l.keyed and s.served,
       pg_snapshot_xmin(s.snapshot)::text::bigint, pg_snapshot_xmax(s.snapshot)::text::bigint,
       (select last_value from jobs.call_n_seq), l.first,
       case when l.has and s.served and nullif(split_part(s.share, ':', 3), '')::int >
         coalesce(nullif(current_setting('jobs_claim.leased', true), ''), '0')::int - nullif(split_part(s.share, ':', 4), '')::int
         then set_config('jobs_claim.leased', '1000000', true) end
from left_over l cross join lateral (
  select share, @alone::boolean or split_part(share, ':', 1) = l.id::text as served, pg_current_snapshot() as snapshot from (
    select coalesce(current_setting('jobs_claim.share', true), '') as share) c offset 0) s
