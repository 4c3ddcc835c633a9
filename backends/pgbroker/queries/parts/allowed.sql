-- allowed.sql: how many more jobs of queue q a claim may lease. This is bounded by its share, by what is left of the total of all shares,
-- and by the room that flow_room.sql found. Limits that this transaction has not read leave no room.
-- Params: @limit of the share, @total of all shares
greatest(least(@limit::int, @total::int - coalesce(nullif(current_setting('jobs_claim.leased', true), '')::int, 0),
           case when q.flow & 2 > 0 then case when split_part(current_setting('jobs_claim.room', true), ':', 1) = q.id::text
             then split_part(current_setting('jobs_claim.room', true), ':', 2)::bigint else 0 end end), 0)::int
