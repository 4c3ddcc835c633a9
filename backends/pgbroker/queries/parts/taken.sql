-- taken.sql: how many jobs and bytes the earlier statements of a claim have leased.
-- Params: none
taken as materialized (
  select coalesce(nullif(current_setting('jobs_claim.leased', true), '')::int, 0) as jobs,
         coalesce(nullif(current_setting('jobs_claim.bytes', true), '')::bigint, 0) as bytes
)
