-- operate_suppress.sql: replace what dead jobs carry.
-- Params: $1 queue, $2 IDs, all of them locked, $3 tails
-- Returns: nothing
-- Called by: (*Broker).Operate
update jobs.dead d set tail = nullif(n.tail, '') from unnest($2::text[], $3::bytea[]) as n(id, tail)
where d.queue = (select id from jobs.queue where name = $1) and d.id = any ($2) and d.id = n.id
