-- flow_wait.sql: if other claims have locked all keys that have turns, wait for the first of these keys. Otherwise this claim would find
-- nothing and have to ask again.
-- This cannot deadlock: a claim that waits here has locked no key yet, and a claim that has locked keys does not wait for anything that
-- a claim of a single queue holds.
-- Params: @queue
-- Returns: nothing
-- Called by: (*Broker).Claim, in one transaction before flow_lock.sql
with place as materialized (
  select id from jobs.queue where name = @queue and layout <= 1 and not paused
), free as materialized (
  select n from (select 1 as n from jobs.key where queue = (select id from place) and pass[1] is not null order by pass[1], name limit 1
                 for no key update skip locked) k
  union all
  select n from (select 1 as n from jobs.key where queue = (select id from place) and pass[2] is not null order by pass[2], name limit 1
                 for no key update skip locked) k
  union all
  select n from (select 1 as n from jobs.key where queue = (select id from place) and pass[3] is not null order by pass[3], name limit 1
                 for no key update skip locked) k
  union all
  select n from (select 1 as n from jobs.key where queue = (select id from place) and pass[4] is not null order by pass[4], name limit 1
                 for no key update skip locked) k
), taken as materialized (
  select id from place where not exists (select from free)
), next as materialized (
  -- Only the first one, since the reader stops at it.
  select n from (select 1 as n from jobs.key where queue = (select id from taken) and pass[1] is not null order by pass[1], name limit 1
                 for no key update) k
  union all
  select n from (select 1 as n from jobs.key where queue = (select id from taken) and pass[2] is not null order by pass[2], name limit 1
                 for no key update) k
  union all
  select n from (select 1 as n from jobs.key where queue = (select id from taken) and pass[3] is not null order by pass[3], name limit 1
                 for no key update) k
  union all
  select n from (select 1 as n from jobs.key where queue = (select id from taken) and pass[4] is not null order by pass[4], name limit 1
                 for no key update) k
)
select from place where exists (select from next)
