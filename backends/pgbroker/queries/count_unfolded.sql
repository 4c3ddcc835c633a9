-- count_unfolded.sql: say whether many deltas of counts wait to be folded.
-- Params: $1 how many are many
-- Returns: one row: whether there are so many
-- Called by: (*Broker).Queues
select count(*) >= $1 from (select from jobs.count_delta limit $1) d
