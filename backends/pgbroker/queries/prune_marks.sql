-- prune_marks.sql: remove marks and events that lapsed an hour ago, and pulses that ran out and that no worker follows. A mark
-- stays for an hour because a call may stall after it generated a fence, before it stores the mark. It then still finds the old
-- mark, and generates another fence.
-- Params: @now µs|null, @limit
-- Returns: one row: how many marks
-- Called by: (*Broker).Prune
with {{clock}}, events as (
  delete from jobs.event where at <= {{store_time}} - 3600000000
), pulses as (
  delete from jobs.pulse where num = any (array(
    select num from jobs.pulse where until <= (select now from clock)
      and not exists (select from jobs.worker w where w.pulse = pulse.num and w.ended_at is null)
    order by until limit @limit for update skip locked))
), gone as (
  delete from jobs.mark where ctid = any (array(
    select ctid from jobs.mark where until <= (select now from clock) - 3600000000 order by until limit @limit for update skip locked))
  returning 1
)
select count(*) from gone
