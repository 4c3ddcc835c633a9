-- examine_lanes.sql: repair dead jobs or records with a lane or state that no version wrote.
-- Params: @id, @queue number of its queue
-- Returns: nothing
-- Called by: (*Broker).Examine
with dead as (
  update jobs.dead set lane = 5 where id = @id and queue = @queue and lane not between 2 and 9
)
update jobs.history set state = 5 where id = @id and queue = @queue and state not in (5, 7)
