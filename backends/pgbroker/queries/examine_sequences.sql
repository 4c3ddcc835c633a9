-- examine_sequences.sql: raise the sequences of seqs and of fences to at least these numbers.
-- Params: @turn last seq|null, @fence last fence|null
-- Returns: one row, which is ignored
-- Called by: (*Broker).Examine
select case when @turn::bigint > (select last_value from jobs.job_seq) then setval('jobs.job_seq', @turn) end,
       case when @fence::bigint > (select last_value from jobs.mark_fence) then setval('jobs.mark_fence', @fence) end
