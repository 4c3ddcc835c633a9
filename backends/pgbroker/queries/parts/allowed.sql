-- allowed.sql: how many jobs of the queue q a claim may lease: by its share, what it has leased, and the room that flow_room.sql found. The
-- limits of a queue that were not looked at in this transaction leave none.
-- Params: @limit of the share, @total of all shares
greatest(least(@limit::int, @total::int - coalesce(nullif(current_setting('jobs_claim.leased', true), '')::int, 0),
           case when q.flow & 2 > 0 then case when split_part(current_setting('jobs_claim.room', true), ':', 1) = q.id::text
             then split_part(current_setting('jobs_claim.room', true), ':', 2)::bigint else 0 end end), 0)::int
