-- pending.sql: whether job j without a key is pending in lane n of share s, above its scan floor.
-- Params: @floors of the lanes 2 to 9, share by share
j.state = 1 and j.key is null and j.queue = s.queue and j.lane = n.lane::smallint
        and j.seq > (@floors::bigint[])[(s.ord::int - 1) * 8 + n.lane - 1]
