-- compatible-from: 1
-- Times are microseconds since 1970; states are the numbers of broker.State;
-- names compare by their bytes. There are no foreign keys, which would cost
-- a check for every job: the removal of a queue checks that it has no rows.
-- Primary keys begin with the name and not with the queue: an index that begins
-- with the queue would let the planner scan all jobs of the queue.

create table jobs.queue (
  id             int generated always as identity primary key,
  name           text collate "C" not null unique,
  layout         int     not null default 1,
  policy         jsonb   not null default '{}', -- the values of rules by the names of broker.Rules; a missing rule is 0
  watched_until  bigint  not null default 0, -- until then, settles publish events for watchers that listen
  polled_until   bigint  not null default 0, -- until then, settles write to table event, for watchers that cannot listen
  leaving        boolean not null default false, -- the queue is being removed; a new job or worker clears this
  keyed          boolean not null default false, -- the queue has had jobs with a key, so keys take turns
  own_active     boolean not null default false, -- the policy of a key has had a limit of active jobs
  own_depth      boolean not null default false, -- the policy of a key has had a depth limit
  changed        int     not null default 0, -- how often the policy changed: claims look again at keys that an earlier policy kept back
  orders         int     not null default 0, -- how often the queue became ordered: a job claimed before the last time is not a head

  paused               boolean not null generated always as (coalesce((policy->>'paused')::bigint, 0) > 0) stored,
  max_depth            bigint  not null generated always as (coalesce((policy->>'max_depth')::bigint, 0)) stored,
  keep_completed       bigint  not null generated always as (coalesce((policy->>'keep_completed')::bigint, 0)) stored,
  keep_completed_count bigint  not null generated always as (coalesce((policy->>'keep_completed_count')::bigint, 0)) stored,
  keep_dead            bigint  not null generated always as (coalesce((policy->>'keep_dead')::bigint, 0)) stored,
  keep_dead_count      bigint  not null generated always as (coalesce((policy->>'keep_dead_count')::bigint, 0)) stored,
  duplicate_span       bigint  not null generated always as (coalesce((policy->>'duplicate_span')::bigint, 0)) stored,
  priority_round       bigint  not null generated always as (coalesce((policy->>'priority_round')::bigint, 0)) stored,

  ordered        bigint not null generated always as (coalesce((policy->>'ordered')::bigint, 0)) stored, -- broker.Order
  max_active     bigint not null generated always as (coalesce((policy->>'max_active')::bigint, 0)) stored,
  rate           bigint not null generated always as (coalesce((policy->>'rate')::bigint, 0)) stored,
  key_max_active bigint not null generated always as (coalesce((policy->>'key_max_active')::bigint, 0)) stored,

  -- Whether the policy limits what an enqueue may store.
  bounded boolean not null generated always as (own_depth or coalesce((policy->>'max_depth')::bigint, 0)
    + coalesce((policy->>'max_bytes')::bigint, 0) + coalesce((policy->>'key_max_depth')::bigint, 0)
    + coalesce((policy->>'ordered')::bigint, 0) > 0) stored,
  -- How claims serve the queue, a sum: 1 if it has keys, 2 if it has limits, 4 if it has a rate of retries.
  flow smallint not null generated always as (
    case when keyed then 1 else 0 end
    + case when coalesce((policy->>'max_active')::bigint, 0) + coalesce((policy->>'rate')::bigint, 0) > 0 then 2 else 0 end
    + case when coalesce((policy->>'retry_rate')::bigint, 0) > 0 then 4 else 0 end) stored,
  -- Whether the end of a lease may make room for other jobs, a sum: 2 for any job of the queue, 1 for jobs of the same key.
  opens smallint not null generated always as (
    case when coalesce((policy->>'max_active')::bigint, 0) > 0 then 2 else 0 end
    + case when own_active or coalesce((policy->>'key_max_active')::bigint, 0) + coalesce((policy->>'ordered')::bigint, 0) > 0 then 1
      else 0 end) stored
);

-- The order in which jobs become pending. The scan floor needs numbers that are
-- taken in order, so there is no cache, and it needs 1 to be taken already.
create sequence jobs.job_seq cache 1;
select setval('jobs.job_seq', 1, true);

-- Jobs that are not final: the only table with many writes. Columns that most
-- jobs do not need are null, which takes no space; a null number means 0, a null
-- flag false.
create table jobs.job (
  seq        bigint   not null, -- position within the lane; negative in a front lane
  created_at bigint   not null,
  run_at     bigint,            -- scheduled and retry only
  worker     bigint,            -- active only: worker.num
  epoch      bigint,
  retention  bigint,
  queue      int      not null,
  deliveries int,
  failures   int,
  crashes    int,
  snoozes    int,
  state      smallint not null,
  lane       smallint not null, -- 2 * priority for the front, 2 * priority + 1 for the rest
  given      boolean,           -- the ID is the caller's
  cancel     boolean,           -- an operator asked to cancel the job
  shuts      boolean,           -- its key is at its limit of active jobs: when it completes, the key is called
  head       int,               -- of the head of a key, for which its other jobs wait: queue.orders when it was claimed
  id         text collate "C" not null,
  key        text collate "C",
  unique_key text collate "C",
  held       text,              -- waiting only: the state that it had or will have, ":" and the holder; run_at is then 0 without a due time
  tail       bytea,             -- broker.AppendTail
  body       bytea    not null, -- broker.AppendBody
  primary key (id, queue) with (fillfactor = 95) -- most IDs ascend
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000
);
create index job_ready on jobs.job (queue, lane, seq) with (fillfactor = 95) where state = 1 and key is null;
create index job_due   on jobs.job (queue, state, run_at, seq) where run_at is not null;
create index job_lease on jobs.job (worker) where worker is not null;
create index job_cancel on jobs.job (worker) where cancel;
-- Jobs with a key are not in job_ready. Claims serve keys, and find the jobs of a key here. The index also serves to count and list
-- the jobs of a key by state.
create index job_turn  on jobs.job (queue, key, state, lane, seq) where key is not null;
-- To look at the jobs with a key of a whole queue. The condition is stricter than "key is not null", so that no plan uses this index
-- instead of job_turn.
create index job_keyed on jobs.job (queue, lane, seq) where state = 1 and key <> '';
create index job_head  on jobs.job (queue, key, head) where head is not null;

-- What claims know about the keys of a queue: a row for each key that has pending jobs, a policy, or a rate that is in use.
-- Only claims change a row, except its policy. They lock it before they count or take jobs of the key.
create table jobs.key (
  queue   int    not null,
  name    text collate "C" not null,
  pass    bigint[],     -- its turn at each priority, the lowest goes first; null if it has no pending job there, or is kept back
  blocked int,          -- if it is kept back: queue.changed at that time
  until   bigint,       -- if its rate keeps it back: until when; otherwise: when its rate has saved up a full burst
  at      bigint not null default 0, -- broker.Bucket
  used    bigint not null default 0,
  policy  jsonb,        -- its own, as in queue
  primary key (name, queue)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
create index key_turn_1 on jobs.key (queue, (pass[1]), name) where pass[1] is not null;
create index key_turn_2 on jobs.key (queue, (pass[2]), name) where pass[2] is not null;
create index key_turn_3 on jobs.key (queue, (pass[3]), name) where pass[3] is not null;
create index key_turn_4 on jobs.key (queue, (pass[4]), name) where pass[4] is not null;
create index key_blocked on jobs.key (queue, blocked) where blocked is not null;
create index key_until   on jobs.key (queue, until) where until is not null and blocked is not null;
create index key_rest    on jobs.key (queue, until) where until is not null and blocked is null;
create index key_policy  on jobs.key (queue, name) where policy is not null;

-- Keys that claims must look at: a job of the key became pending, or what kept the key back may be over. The transactions that
-- report this only insert, so they wait for no other transaction.
create table jobs.call (
  n     bigint generated always as identity, -- a floor needs these to be taken in order
  queue int  not null,
  key   text collate "C" not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_threshold = -1);
create index call_n on jobs.call (queue, n);
select setval('jobs.call_n_seq', 1, true);

-- The rates of queues that have limits. A claim from such a queue locks its row before it counts.
create table jobs.limiter (
  queue      int primary key,
  at         bigint not null default 0, -- broker.Bucket of the policy's rate
  used       bigint not null default 0,
  retry_at   bigint not null default 0, -- broker.Bucket of the rate of retries
  retry_used bigint not null default 0
) with (fillfactor = 50);

create table jobs.dead (
  died_at    bigint not null,
  created_at bigint not null,
  epoch      bigint not null,
  retention  bigint,
  queue      int    not null,
  deliveries int,
  failures   int,
  crashes    int,
  snoozes    int,
  lane       smallint not null,
  given      boolean,
  suppressed boolean,           -- as its tail says
  head       int,               -- as in job, if it keeps its key back
  id         text collate "C" not null,
  key        text collate "C",
  unique_key text collate "C",
  tail       bytea,
  body       bytea  not null,
  primary key (id, queue)
);
create index dead_end on jobs.dead (queue, died_at, id);
create index dead_key on jobs.dead (queue, key, id) where key is not null;

-- type_of returns the type in a body of version 1 (package broker): the first field after the index of the body. It returns null for
-- other bodies, and never fails.
create function jobs.type_of(body bytea) returns bytea language plpgsql immutable strict parallel safe as $$
declare
  at   int := 2; -- the position of the field's number, if bytes count from 0
  size int;
begin
  if length(body) < 3 or get_byte(body, 0) <> 1 then
    return null;
  end if;
  size := get_byte(body, 1);
  if size > 127 then
    size := size - 128 + 128 * get_byte(body, 2);
    at := 3;
  end if;
  at := at + size;
  if length(body) < at + 3 or get_byte(body, at) <> 3 then
    return null;
  end if;
  size := get_byte(body, at + 1);
  if size > 127 then
    size := size - 128 + 128 * get_byte(body, at + 2);
    at := at + 1;
  end if;
  if length(body) < at + 2 + size then
    return null;
  end if;
  return substr(body, at + 3, size);
end $$;
-- A tail begins with the reason of a death, in two bytes.
create index dead_type on jobs.dead (queue, jobs.type_of(body), died_at, id);
create index dead_reason on jobs.dead (queue, substr(tail, 1, 2), died_at, id);
create index dead_head on jobs.dead (queue, key) where head is not null;

-- Completed and cancelled records. Records that a queue keeps for a day or
-- longer go to the partition of the day on which they expire, which is dropped
-- as a whole. All others have day 0 and are pruned one by one.
create table jobs.history (
  expires_at  bigint not null,
  finished_at bigint not null,
  created_at  bigint not null,
  epoch       bigint not null,
  queue       int    not null,
  day         int    not null, -- since 1970
  deliveries  int,
  failures    int,
  crashes     int,
  snoozes     int,
  state       smallint not null,
  given       boolean,
  id          text collate "C" not null,
  key         text collate "C",
  tail        bytea,
  body        bytea  not null
) partition by list (day);
create index history_id  on jobs.history (id, queue);
create index history_end on jobs.history (queue, state, finished_at, id);
create index history_key on jobs.history (queue, key, id) where key is not null;
-- There is no default partition: attaching another partition would lock it
-- exclusively, and wait for all readers of records.
create table jobs.history_other partition of jobs.history for values in (0);
create index history_other_expiry on jobs.history_other (queue, expires_at);
create table jobs.history_day (day int primary key); -- the days whose partitions take records

create table jobs.unique_key (
  queue int      not null,
  key   text collate "C" not null,
  job   text collate "C" not null,
  mode  smallint not null, -- broker.UniqueMode
  token bigint   not null, -- identifies the enqueue that took it
  until bigint,            -- null: until the job frees it
  next  text collate "C",  -- the job that waits behind the holder, or did
  primary key (key, queue)
);
create index unique_key_window on jobs.unique_key (queue, until) where mode = 2;

-- IDs that callers gave, after their records are gone.
create table jobs.remembered (
  queue int    not null,
  id    text collate "C" not null,
  until bigint not null,
  epoch bigint,          -- at which the job was moved to another store
  replaced text,         -- the job that the job with this ID replaced, so that it was never stored itself
  primary key (id, queue)
);
create index remembered_until on jobs.remembered (queue, until);

-- What a queue knows about a worker. Rows of ended workers stay for a day.
create table jobs.worker (
  num      bigint generated always as identity unique,
  pulse    bigint,          -- pulse.num; null if it was ended before it registered
  ended_at bigint,
  queue    int     not null,
  drained  boolean not null default false, -- it has ended and holds no lease any more
  id       text collate "C" not null,
  info     bytea   not null,
  primary key (id, queue)
) with (fillfactor = 50);
create index worker_open    on jobs.worker (queue) where not drained;
create index worker_ended   on jobs.worker (queue, ended_at) where ended_at is not null;
create index worker_leaving on jobs.worker (queue) where not drained and ended_at is not null; -- each renewal looks for such a worker
create index worker_pulse   on jobs.worker (pulse) where ended_at is null;

-- Until when the leases of a worker are valid, in all queues that it renews together. So a renewal writes one row, for any
-- number of queues. A pulse that is not intact is not renewed: one of its queues has ended the worker, or follows another pulse.
create table jobs.pulse (
  num    bigint generated always as identity primary key,
  until  bigint  not null,
  intact boolean not null default true,
  worker text collate "C" not null
) with (fillfactor = 50);
create unique index pulse_intact on jobs.pulse (worker) where intact;
create index pulse_until on jobs.pulse (until); -- each renewal looks for the pulse that runs out first

-- The verdicts of each worker's last settle: ordinal * 16 + state of the
-- items that were applied. Each number has its own row, so that no statement
-- scans dead versions of a row.
create table jobs.settled (
  worker   bigint not null,
  number   bigint not null,
  verdicts int[]  not null,
  primary key (worker, number)
);

-- Counts by state: the total plus all deltas. Statements only insert deltas, so that no transaction keeps another one
-- from counting. Only the count of suppressed dead jobs is changed in the total, since few of these change at a time.
create table jobs.count_total (
  queue     int primary key,
  pending   bigint not null default 0,
  scheduled bigint not null default 0,
  active    bigint not null default 0,
  retry     bigint not null default 0,
  completed bigint not null default 0,
  dead      bigint not null default 0,
  cancelled bigint not null default 0,
  waiting   bigint not null default 0,
  suppressed bigint not null default 0, -- dead jobs that are suppressed
  bytes     bigint not null default 0, -- size of the bodies of all jobs that are neither active nor final

  -- What has happened, which never decreases: broker.Totals. Its completed, dead and cancelled are called done, died and dropped
  -- here.
  enqueued  bigint not null default 0,
  claimed   bigint not null default 0,
  done      bigint not null default 0,
  failed    bigint not null default 0,
  retried   bigint not null default 0,
  died      bigint not null default 0,
  crashed   bigint not null default 0,
  dropped   bigint not null default 0,
  expired   bigint not null default 0,
  waits     bigint not null default 0,
  waited    bigint not null default 0,
  runs      bigint not null default 0,
  ran       bigint not null default 0
);
create table jobs.count_delta (
  n         bigint generated always as identity, -- the floor needs these to be taken in order
  queue     int not null,
  pending   int not null default 0,
  scheduled int not null default 0,
  active    int not null default 0,
  retry     int not null default 0,
  completed int not null default 0,
  dead      int not null default 0,
  cancelled int not null default 0,
  bytes     bigint not null default 0,
  -- From here on null means 0, which takes no space.
  waiting   int,
  -- What has happened. Claims are counted by the rows that raise active.
  enqueued  int,
  done      int,
  failed    int,
  retried   int,
  died      int,
  crashed   int,
  dropped   int,
  expired   int,
  waits     int,
  waited    bigint,
  runs      int,
  ran       bigint
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_threshold = -1);
create index count_delta_n on jobs.count_delta (n);
select setval('jobs.count_delta_n_seq', 1, true);

create sequence jobs.mark_fence;
create table jobs.mark (
  fence bigint not null,
  until bigint not null,
  name  text collate "C" primary key,
  owner text   not null,
  value bytea  not null
);
create index mark_until on jobs.mark (until);

-- Processes with a waiting claim, by the numbers of their listeners: a new job wakes one of them.
create table jobs.waiter (
  queue    int not null,
  listener int not null,
  primary key (queue, listener)
);

-- Events for watchers that cannot listen.
create table jobs.event (
  id      bigint generated always as identity primary key,
  at      bigint not null,
  payload text   not null
);

-- When a job ends, a statement frees its unique key by deleting the row. This trigger then gives the key to the job that waits behind
-- it, which becomes pending or scheduled. The trigger costs nothing if no job waits.
create function jobs.follow() returns trigger language plpgsql as $$
declare
  came   smallint;
  of_key text;
begin
  update jobs.job j
  set state = left(j.held, 1)::smallint, held = null, run_at = nullif(j.run_at, 0), epoch = coalesce(j.epoch, 0) + 1,
      seq = nextval('jobs.job_seq')
  where j.id = old.next and j.queue = old.queue and j.state = 8 and substr(j.held, 2) = ':@behind:' || old.job
  returning j.state, j.key into came, of_key;
  if came is null then
    return null;
  end if;
  insert into jobs.unique_key (queue, key, job, mode, token) values (old.queue, old.key, old.next, old.mode, old.token);
  if came = 1 and of_key is not null then
    insert into jobs.call (queue, key) values (old.queue, of_key);
  end if;
  insert into jobs.count_delta (queue, pending, scheduled, waiting) values (old.queue, (came = 1)::int, (came = 2)::int, -1);
  -- Wake one process, or all processes if no claim waits yet.
  perform pg_notify('jobs.' || coalesce(
    (select listener from jobs.waiter where queue = q.id and not pg_try_advisory_xact_lock_shared(1785684595, listener) limit 1),
    0), E't\n' || q.name || E'\n1')
  from jobs.queue q where q.id = old.queue;
  return null;
end $$;
create trigger follow after delete on jobs.unique_key for each row when (old.next is not null) execute function jobs.follow();
