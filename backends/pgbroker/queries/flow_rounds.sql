-- flow_rounds.sql: lease jobs as flow_take.sql does, from a queue with a priority round, as in claim_rounds.sql.
-- Params: @now µs|null, @queue, @floors, @bytes and @passes as in flow_take.sql, @turn number of the next turn in the round
-- Returns: as flow_take.sql
-- Called by: (*Broker).Claim, in one transaction after flow_lock.sql
with {{flow_keys}}, ranked as materialized (
  select l.*, row_number() over (partition by l.priority order by l.tag, l.name is null, l.seq) as r from in_order l
), round as materialized (
  select s.most, @turn::bigint as turn, coalesce(nullif(s.priority_round, 0), 1::bigint << 40) as round
  from share s
), reserved as materialized (
  -- One job of each lower priority for each turn that belongs to that priority.
  select l.place, f.first + o.round * (l.r - 1) as turn
  from round o cross join lateral (
    select p as priority, o.turn + mod(o.round - 5 + p - mod(o.turn, o.round) + o.round, o.round) as first
    from generate_series(2, 4) as p) f
  join ranked l on l.priority = f.priority and f.first + o.round * (l.r - 1) < o.turn + o.most
), free as materialized (
  select t.turn, row_number() over (order by t.turn) as n
  from round o cross join lateral generate_series(o.turn, o.turn + o.most - 1) as t(turn)
  where t.turn not in (select turn from reserved)
), chosen as materialized (
  select l.priority, l.place, l.r, coalesce(r.turn, f.turn) as turn
  from (select l.*, case when r.turn is null
          then row_number() over (partition by r.turn is null order by l.priority, l.r) end as nth
        from ranked l left join reserved r on r.place = l.place) l
  left join reserved r on r.place = l.place
  left join free f on f.n = l.nth
  where r.turn is not null or f.turn is not null
), picked as materialized (
  -- The jobs of each priority take its turns in their own order.
  select o.*, sum(o.size) over (order by o.turn rows unbounded preceding) - o.size + (select bytes from taken) as before
  from (
    select l.name, l.place, l.id, l.size, l.priority, t.turn, row_number() over (partition by l.name order by t.turn) as nth
    from (select priority, place, row_number() over (partition by priority order by r) as n from chosen) j
    join (select priority, turn, row_number() over (partition by priority order by turn) as n from chosen) t
      on t.priority = j.priority and t.n = j.n
    join ranked l on l.place = j.place) o
  -- In rounds a key may get turns at several priorities, and in sum more turns than it may have.
  left join bound k on k.name = o.name
  where k.free is null or o.nth <= k.free
), {{flow_lease}}
