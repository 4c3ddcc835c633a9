package system

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// barePostgres has one hot table; finished rows move to a history table.
type barePostgres struct {
	url    string
	pool   *pgxpool.Pool
	listen *pgx.Conn
}

const bareSchema = `
create sequence job_seq;
create table job (
  seq bigint not null default nextval('job_seq'), id bigint not null default nextval('job_seq') primary key,
  created_at timestamptz not null default now(), run_at timestamptz, state int2 not null, priority int2 not null default 1,
  attempt int2 not null default 0, queue text not null, kind text not null, payload bytea not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000);
create index on job (queue, priority, seq) where state = 1;
create index on job (run_at) where state = 0;
create table job_done (id bigint not null, finished_at timestamptz not null, created_at timestamptz not null,
  attempt int2 not null, queue text not null, kind text not null, payload bytea);
create index on job_done (id);`

const (
	// The transaction takes its number before its rows take theirs, so that the
	// floor never passes a row that is not visible yet.
	bareFirst  = `select pg_current_xact_id()::text::bigint`
	bareInsert = `insert into job (state, queue, kind, payload, run_at)
select case when run_at > now() then 0 else 1 end, queue, 'bench', payload, run_at
from unnest($1::text[], $2::bytea[], $3::timestamptz[]) t(queue, payload, run_at)`
	bareNotify  = `select pg_notify('bare', '')`
	bareLazy    = `select set_config('synchronous_commit', 'off', true)`
	barePromote = `update job set state = 1, seq = nextval('job_seq') where ctid = any (array(
  select ctid from job where state = 0 and run_at <= now() order by run_at limit $1 for update skip locked))`
	bareTake = `update job set state = 2, attempt = attempt + 1 where ctid = any (array(
  select ctid from job where state = 1 and queue = '' and priority = 1 order by seq limit $1 for update skip locked))
returning id, attempt, payload`
	bareEnd = `with s as materialized (select * from unnest($1::bigint[], $2::int2[]) t(id, attempt)),
d as (delete from job j using s where j.id = s.id and j.attempt = s.attempt returning j.*)
insert into job_done select id, now(), created_at, attempt, queue, kind, payload from d`
	bareAgain = `update job j set state = 1, seq = nextval('job_seq') from unnest($1::bigint[], $2::int2[]) s(id, attempt)
where j.id = s.id and j.attempt = s.attempt`
	bareNext = `select min(run_at) from job where state = 0`
)

func openBarePostgres(ctx context.Context, s Setup) (System, error) {
	pool, err := openPool(ctx, s.URL, connections)
	if err != nil {
		return nil, err
	}
	return &bare{setup: s, store: &barePostgres{url: s.URL, pool: pool}}, nil
}

func (s *barePostgres) prepare(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, bareSchema)
	return err
}

func (s *barePostgres) put(ctx context.Context, batch []Job) error {
	queues, payloads, times := make([]string, len(batch)), make([][]byte, len(batch)), make([]*time.Time, len(batch))
	for i := range batch {
		queues[i], payloads[i] = batch[i].Queue, batch[i].Payload
		if !batch[i].RunAt.IsZero() {
			times[i] = &batch[i].RunAt
		}
	}
	var b pgx.Batch
	b.Queue(bareInsert, queues, payloads, times)
	b.Queue(bareNotify)
	return s.pool.SendBatch(ctx, &b).Close()
}

func (s *barePostgres) turn(ctx context.Context, ended []bareJob, room int, wait time.Duration) (claimed []bareJob, due time.Time,
	err error) {
	if wait > 0 {
		if err := s.hear(ctx, wait); err != nil {
			return nil, due, err
		}
	}
	var b pgx.Batch
	var ids, again []int64
	var attempts, againAttempts []int16
	for _, j := range ended {
		if j.failed {
			again, againAttempts = append(again, j.key), append(againAttempts, int16(j.failures+1))
		} else {
			ids, attempts = append(ids, j.key), append(attempts, int16(j.failures+1))
		}
	}
	if len(ended) == 0 {
		b.Queue(bareLazy) // a lost claim is just made again
	}
	if len(ids) > 0 {
		b.Queue(bareEnd, ids, attempts)
	}
	if len(again) > 0 {
		b.Queue(bareAgain, again, againAttempts)
	}
	if room > 0 {
		b.Queue(barePromote, room)
		b.Queue(bareTake, room).Query(func(rows pgx.Rows) error {
			var j bareJob
			_, err := pgx.ForEachRow(rows, []any{&j.key, &j.failures, &j.payload}, func() error {
				j.failures--
				claimed = append(claimed, j)
				j.payload = nil
				return nil
			})
			return err
		})
		b.Queue(bareNext).QueryRow(func(row pgx.Row) error {
			var at *time.Time
			err := row.Scan(&at)
			if at != nil {
				due = *at
			}
			return err
		})
	}
	err = s.pool.SendBatch(ctx, &b).Close()
	return claimed, due, err
}

// hear waits for a notification, but no longer than wait.
func (s *barePostgres) hear(ctx context.Context, wait time.Duration) (err error) {
	if s.listen == nil {
		if s.listen, err = pgx.Connect(ctx, s.url); err != nil {
			return err
		}
		_, err = s.listen.Exec(ctx, "listen bare")
		return err // claim once more, since earlier notifications were missed
	}
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if _, err = s.listen.WaitForNotification(limited); limited.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

func (s *barePostgres) left(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, "select count(*) from job").Scan(&n)
	return n, err
}

func (s *barePostgres) close() error {
	if s.listen != nil {
		s.listen.Close(context.Background())
	}
	s.pool.Close()
	return nil
}
