-- pending.sql: whether a job j is pending in the lane n of the share s, above its scan floor. What else keeps a job from being
-- claimed, such as its key, belongs here and into due.sql, and not into floor.sql: it may be claimed later.
-- Params: @floors of the lanes 2 to 9, share by share
j.state = 1 and j.queue = s.queue and j.lane = n.lane::smallint and j.seq > (@floors::bigint[])[(s.ord::int - 1) * 8 + n.lane - 1]
