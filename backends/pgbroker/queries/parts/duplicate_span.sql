-- duplicate_span.sql: for how long a queue refuses the IDs of jobs that are gone, in µs; broker.DefaultDuplicateSpan without a policy.
-- Params: none
coalesce(nullif(duplicate_span, 0), 3600000000)
