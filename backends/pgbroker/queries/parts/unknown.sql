-- unknown.sql: lets the claim take nothing from the queues behind q if q is served in another way than the claim knew: q is then asked
-- again, first.
-- Params: @flow as the claim knows
case when q.flow & 3 & ~@flow::int <> 0 or q.priority_round > 0 and @flow & 8 = 0 then set_config('jobs_claim.leased', '1000000', true) end
