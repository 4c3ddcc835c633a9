-- What holding jobs and restoring them elsewhere needs. New columns are null or
-- have a constant default, so that no row is written.

-- waiting only: the state in which the job was, ":" and who holds it. Its due
-- time stays in run_at, where 0 stands for none.
alter table jobs.job add column held text;

-- The epoch at which the job left for elsewhere.
alter table jobs.remembered add column epoch bigint;

-- Few jobs are held at a time: this count is kept here, and has no deltas.
alter table jobs.count_total add column waiting bigint not null default 0;
