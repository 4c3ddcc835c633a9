-- policy_set.sql: change what is not null of a queue's policy, and make the queue known.
-- Params: $1 queue, $2 paused, $3 depth limit, $4 age and $5 count of kept records, $6 age and $7 count of kept dead jobs,
--   $8 duplicate span, $9 channel, $10 payload, $11 priority round
-- Returns: at most one row, none when the layout is newer: layout, the columns of policyRow, nothing
-- Called by: (*Broker).Policy
insert into jobs.queue as q (name, paused, max_depth, retain_age, retain_count, dead_age, dead_count, duplicate_span, priority_round)
values ($1, coalesce($2::boolean, false), coalesce($3::bigint, 0), coalesce($4::bigint, 0), coalesce($5::bigint, 0),
        coalesce($6::bigint, 0), coalesce($7::bigint, 0), coalesce($8::bigint, 0), coalesce($11::bigint, 0))
on conflict (name) do update set
  paused = coalesce($2, q.paused), max_depth = coalesce($3, q.max_depth), retain_age = coalesce($4, q.retain_age),
  retain_count = coalesce($5, q.retain_count), dead_age = coalesce($6, q.dead_age), dead_count = coalesce($7, q.dead_count),
  duplicate_span = coalesce($8, q.duplicate_span), priority_round = coalesce($11, q.priority_round), leaving = false
where q.layout <= 1
returning layout, paused, max_depth, retain_age, retain_count, dead_age, dead_count, duplicate_span, priority_round, pg_notify($9, $10)::text
