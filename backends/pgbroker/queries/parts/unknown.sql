-- unknown.sql: has the queues behind q give nothing, when q is served in another way than the claim knew: then it is asked anew, first.
-- Params: @flow as the claim knows
case when q.flow & 3 & ~@flow::int <> 0 or q.priority_round > 0 and @flow & 8 = 0 then set_config('jobs_claim.leased', '1000000', true) end
