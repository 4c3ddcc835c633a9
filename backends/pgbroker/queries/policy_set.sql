-- policy_set.sql: change what is not null of a queue's policy, and make the queue known.
-- Params: @queue, @paused, @max_depth depth limit, @retain_age age and @retain_count count of kept records, @dead_age age and
--   @dead_count count of kept dead jobs, @duplicate_span, @channel, @payload, @priority_round
-- Returns: at most one row, none when the layout is newer: layout, the columns of policyRow, nothing
-- Called by: (*Broker).Policy
insert into jobs.queue as q (name, paused, max_depth, retain_age, retain_count, dead_age, dead_count, duplicate_span, priority_round)
values (@queue, coalesce(@paused::boolean, false), coalesce(@max_depth::bigint, 0), coalesce(@retain_age::bigint, 0),
        coalesce(@retain_count::bigint, 0), coalesce(@dead_age::bigint, 0), coalesce(@dead_count::bigint, 0),
        coalesce(@duplicate_span::bigint, 0), coalesce(@priority_round::bigint, 0))
on conflict (name) do update set
  paused = coalesce(@paused, q.paused), max_depth = coalesce(@max_depth, q.max_depth),
  retain_age = coalesce(@retain_age, q.retain_age), retain_count = coalesce(@retain_count, q.retain_count),
  dead_age = coalesce(@dead_age, q.dead_age), dead_count = coalesce(@dead_count, q.dead_count),
  duplicate_span = coalesce(@duplicate_span, q.duplicate_span), priority_round = coalesce(@priority_round, q.priority_round),
  leaving = false
where q.layout <= 1
returning layout, paused, max_depth, retain_age, retain_count, dead_age, dead_count, duplicate_span, priority_round,
          pg_notify(@channel, @payload)::text
