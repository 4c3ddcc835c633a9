-- claim_rounds.sql: lease pending jobs as claim.sql does, if some of the queues have a priority round: the last three turns of a
-- round belong to the priorities 2, 3 and 4 (broker.Policy.Turn). At all other turns, or if no job of that priority is pending, the
-- most urgent job is next. Queues without a priority round count as having an endless one.
-- Params: @worker, @limit, @queues, @limits, @floors and @bytes as in claim.sql, @turns the number of the next turn of each queue
-- Returns: one row per job: number of its queue, 0, its turn, and the other columns of claim.sql
-- Called by: (*Broker).Claim
with {{claimable}}, {{taken}}, going as materialized (
  select s.ord, s.queue, s.worker, least(s.most, @limit - taken.jobs) as most, (@turns::bigint[])[s.ord::int] + taken.jobs as turn,
         coalesce(nullif(s.priority_round, 0), 1::bigint << 40) as round
  from share s cross join taken
), reserved as materialized (
  -- One job of each lower priority for each turn that belongs to that priority.
  select s.queue, l.place, l.lane, l.seq, l.size, l.id,
         f.first + s.round * (row_number() over (partition by s.queue, f.priority order by l.lane, l.seq) - 1) as turn
  from going s
  cross join lateral (
    select p as priority, s.turn + mod(s.round - 5 + p - mod(s.turn, s.round) + s.round, s.round) as first
    from generate_series(2, 4) as p) f
  cross join lateral (
    select j.* from generate_series(2 * f.priority, 2 * f.priority + 1) as n(lane) cross join lateral (
      select j.ctid as place, j.id, j.lane, j.seq, octet_length(j.body) + coalesce(octet_length(j.tail), 0) as size from jobs.job j
      where {{pending}}
      order by j.seq limit s.most for update skip locked) j
    limit greatest((s.turn + s.most - f.first + s.round - 1) / s.round, 0)) l
), rest as materialized (
  select s.queue, l.*, row_number() over (partition by s.queue order by l.lane, l.seq) as n
  from going s cross join lateral (
    select j.* from generate_series(2, 9) as n(lane) cross join lateral (
      select j.ctid as place, j.id, j.lane, j.seq, octet_length(j.body) + coalesce(octet_length(j.tail), 0) as size from jobs.job j
      where {{pending}} and j.ctid <> all (array(select place from reserved))
      order by j.seq limit s.most for update skip locked) j
    limit s.most - (select count(*) from reserved r where r.queue = s.queue)) l
), free as materialized (
  select s.queue, t.turn, row_number() over (partition by s.queue order by t.turn) as n
  from going s cross join lateral generate_series(s.turn, s.turn + s.most - 1) as t(turn)
  where not exists (select from reserved r where r.queue = s.queue and r.turn = t.turn)
), chosen as materialized (
  select queue, place, id, lane / 2 as priority, lane, seq, size, turn from reserved
  union all
  select r.queue, r.place, r.id, r.lane / 2, r.lane, r.seq, r.size, f.turn from rest r join free f on f.queue = r.queue and f.n = r.n
), picked as materialized (
  -- The jobs of each priority take its turns in their own order.
  select o.*, sum(o.size) over (order by o.ord, o.turn rows unbounded preceding) - o.size + (select bytes from taken) as before
  from (
    select s.ord, j.queue, j.id, j.place, j.size, t.turn
    from (select *, row_number() over (partition by queue, priority order by lane, seq) as n from chosen) j
    join (select queue, priority, turn, row_number() over (partition by queue, priority order by turn) as n from chosen) t
      on t.queue = j.queue and t.priority = j.priority and t.n = j.n
    join going s on s.queue = j.queue
    order by s.ord, t.turn limit @limit - (select jobs from taken)) o
), leased as (
  update jobs.job j set state = 3, worker = (select s.worker from going s where s.queue = j.queue)
  where j.ctid = any (array(select place from picked where before < @bytes))
  returning j.queue, j.lane, j.seq, j.cancel, j.id, j.created_at, j.epoch, j.deliveries, j.failures, j.crashes, j.snoozes, j.tail, j.body,
            j.unique_key
), {{started}}
select l.queue, 0::smallint, p.turn, l.cancel, l.id, l.created_at, l.epoch, l.deliveries, l.failures, l.crashes, l.snoozes, l.tail, l.body,
       (select count(*) from chosen) > (select count(*) from picked where before < @bytes)
from leased l join picked p on p.queue = l.queue and p.id = l.id
