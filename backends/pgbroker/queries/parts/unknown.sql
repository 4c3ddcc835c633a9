-- unknown.sql: makes the claim take nothing from the queues after q, if q has keys, limits or a priority round of which the claim did not
-- know. The claim then asks q again, before the others.
-- Params: @flow as the claim knows
case when q.flow & 3 & ~@flow::int <> 0 or q.priority_round > 0 and @flow & 8 = 0 then set_config('jobs_claim.leased', '1000000', true) end
