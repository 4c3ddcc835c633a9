-- examine_sequences.sql: raise the sequences of seqs and of fences to at least these numbers.
-- Params: @turn last seq|null, @fence last fence|null
-- Returns: one row, which is ignored
-- Called by: (*Broker).Examine
select case when @turn::bigint is not null then setval('jobs.job_seq', greatest(@turn, (select last_value from jobs.job_seq))) end,
       case when @fence::bigint is not null then setval('jobs.mark_fence', greatest(@fence, (select last_value from jobs.mark_fence))) end
