// Package riverdata reads what River (github.com/riverqueue/river) keeps in
// Postgres, and says which job of this module each of its jobs becomes. It writes nothing. The
// operator's command imports with it; River itself is not compiled in. It is tested with the tables of
// River v0.51.
package riverdata

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
)

// Store is a schema in which River keeps its jobs.
type Store struct {
	pool   *pgxpool.Pool
	schema string
}

// NewStore returns the store behind a pool, which the caller closes. An empty schema means the schema of
// the search path.
func NewStore(pool *pgxpool.Pool, schema string) *Store { return &Store{pool, schema} }

// table returns the quoted name of one of River's tables.
func (s *Store) table(name string) string {
	if s.schema == "" {
		return pgx.Identifier{name}.Sanitize()
	}
	return pgx.Identifier{s.schema, name}.Sanitize()
}

// Queue is a queue of River with the number of its jobs by state.
type Queue struct {
	Name   string
	Paused bool

	Available, Scheduled, Retryable, Discarded, Pending int64 // Jobs reads these
	Running, Completed, Cancelled                       int64 // Jobs does not read these
}

// Queues describes the named queues, or all, sorted by name. The error is
// broker.ErrNotFound if one has no jobs and is not known to River. It reads the
// whole table of jobs once.
func (s *Store) Queues(ctx context.Context, names ...string) ([]Queue, error) {
	rows, err := s.pool.Query(ctx, `
		select coalesce(j.queue, q.name), coalesce(bool_or(q.paused_at is not null), false),
			count(*) filter (where j.state = 'available'), count(*) filter (where j.state = 'scheduled'),
			count(*) filter (where j.state = 'retryable'), count(*) filter (where j.state = 'discarded'),
			count(*) filter (where j.state = 'pending'), count(*) filter (where j.state = 'running'),
			count(*) filter (where j.state = 'completed'), count(*) filter (where j.state = 'cancelled')
		from `+s.table("river_job")+` j full join `+s.table("river_queue")+` q on q.name = j.queue
		where cardinality($1::text[]) = 0 or coalesce(j.queue, q.name) = any($1)
		group by 1 order by 1`, append([]string{}, names...))
	if err != nil {
		return nil, away(err)
	}
	queues, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (q Queue, err error) {
		err = row.Scan(&q.Name, &q.Paused, &q.Available, &q.Scheduled, &q.Retryable, &q.Discarded, &q.Pending,
			&q.Running, &q.Completed, &q.Cancelled)
		return q, err
	})
	if err != nil {
		return nil, away(err)
	}
	found := make(map[string]bool)
	for _, q := range queues {
		found[q.Name] = true
	}
	for _, name := range names {
		if !found[name] {
			return nil, broker.About(broker.ErrNotFound, "read River's queues", name, "")
		}
	}
	return queues, nil
}

// Led reports whether clients of River that run jobs are alive, which is so if they have a leader.
func (s *Store) Led(ctx context.Context) (led bool, err error) {
	err = s.pool.QueryRow(ctx, `select exists (select from `+s.table("river_leader")+` where expires_at > now())`).Scan(&led)
	return led, away(err)
}

// bounded returns the time in a column, or the nearest one that a job here can have. For Postgres infinity is a time, too; one job
// that is due then must not end the reading of the others.
func bounded(column string) string {
	return "case when " + column + " is not null then least(greatest(" + column + ", '1970-01-02Z'), '2190-01-01Z') end"
}

// page is how many jobs one statement reads.
const page = 500

// Jobs reads the available, scheduled, retryable, discarded and pending jobs of a
// queue, oldest first, as the jobs that they become. A job that cannot be read comes with the reason.
// After the sequence, err says whether reading ended early.
func (s *Store) Jobs(ctx context.Context, queue string, err *error) iter.Seq2[broker.NewJob, error] {
	return func(yield func(broker.NewJob, error) bool) {
		for last := int64(0); ; {
			rows, failed := s.pool.Query(ctx, `
				select id, state::text, attempt, max_attempts, `+bounded("created_at")+`, `+bounded("finalized_at")+`,
					`+bounded("scheduled_at")+`, priority, args::text, coalesce(array_to_json(errors)::text, ''), kind,
					metadata::text, queue, array_remove(coalesce(tags, '{}'), null)
				from `+s.table("river_job")+`
				where queue = $1 and id > $2 and state in ('available', 'scheduled', 'retryable', 'discarded', 'pending')
				order by id limit $3`, queue, last, page)
			var some []Row
			if failed == nil {
				some, failed = pgx.CollectRows(rows, pgx.RowToStructByPos[Row])
			}
			if failed != nil {
				*err = away(failed)
				return
			}
			for i := range some {
				last = some[i].ID
				if !yield(some[i].NewJob()) {
					return
				}
			}
			if len(some) < page {
				return
			}
		}
	}
}

// away adds to an error that River's tables cannot be read.
func away(err error) error {
	var refused *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &refused) && refused.Code == "42P01": // undefined_table
		return fmt.Errorf("%w: River's tables: %s; give the schema in the URL, as ?schema=NAME", broker.ErrNotFound,
			strings.TrimPrefix(refused.Message, "relation "))
	}
	return fmt.Errorf("River's database cannot be read: %w", err)
}
