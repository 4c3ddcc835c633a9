-- examine_sequences.sql: have the sequences of turns and of fences go on behind these numbers.
-- Params: $1 last turn|null, $2 last fence|null
-- Returns: one row, of no use
-- Called by: (*Broker).Examine
select case when $1::bigint is not null then setval('jobs.job_seq', greatest($1, (select last_value from jobs.job_seq))) end,
       case when $2::bigint is not null then setval('jobs.mark_fence', greatest($2, (select last_value from jobs.mark_fence))) end
