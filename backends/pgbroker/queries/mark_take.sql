-- mark_take.sql: take a mark that is free, or take it again for its owner.
-- The fence is generated after the row is locked, so that a later take has a higher one.
-- Params: @now µs|null, @name, @owner, @ttl time to live µs, @value
-- Returns: the columns of a mark, no row when another owner holds it
-- Called by: (*Broker).Mark
with {{clock}}
insert into jobs.mark as m (name, owner, fence, value, until)
select @name, @owner, nextval('jobs.mark_fence'), @value, clock.now + @ttl from clock
on conflict (name) do update set
  owner = excluded.owner, until = excluded.until,
  fence = nextval('jobs.mark_fence'),
  value = case when m.until > (select now from clock) then m.value else excluded.value end
where m.owner = excluded.owner or m.until <= (select now from clock)
returning owner, fence, value, until
