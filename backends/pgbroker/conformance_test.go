package pgbroker

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// The role owns nothing and has the privileges that docs/backends/postgres.md says it
// needs.
func TestConformance(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	direct := connect(t, url, 2)
	role := createRole(t, direct)
	all := &pooledSchemas{t: t, direct: direct, make: func(tb conformance.TB) *pooledSchema { return newPooledSchema(tb, direct, url, role) }}
	conformance.Run(t, func(tb conformance.TB) *conformance.Store { return store(tb, direct, all.take(tb), Config{}) })
}

// Rules that a pool between broker and server could break are checked each time, the rest of
// the suite is not; see conformance.Run.
func TestConformance_ThroughPgBouncer(t *testing.T) {
	t.Parallel()
	url := testenv.PgBouncer(t)
	direct := connect(t, testenv.Postgres(t), 2)
	all := &pooledSchemas{t: t, direct: direct, shared: true, make: func(tb conformance.TB) *pooledSchema {
		return newPooledSchema(tb, direct, url, "")
	}}
	conformance.Run(t, func(tb conformance.TB) *conformance.Store {
		s := store(tb, direct, all.take(tb), Config{PollOnly: true})
		// PgBouncer lends a connection to one store after the other: ending those of this
		// store would end those of another.
		s.Bounce = nil
		return s
	}, "Enqueue", "Wake", "Watch", "Fault", "Totals")
}

// newPooledSchema returns a schema of its own, reached through a pool of its own, by a role
// that owns nothing unless it is "".
func newPooledSchema(tb conformance.TB, direct *pgxpool.Pool, url, role string) *pooledSchema {
	tb.Helper()
	p := &pooledSchema{schema: schema(tb, direct)}
	if role != "" {
		grant(tb, direct, p.schema, role)
	}
	p.pool = connectIn(tb, url, 8, p.schema, role)
	return p
}

// store is a store in a schema.
func store(tb conformance.TB, direct *pgxpool.Pool, p *pooledSchema, config Config) *conformance.Store {
	tb.Helper()
	config.Schema = p.schema
	config.Logger = slog.New(slog.DiscardHandler)
	exec := func(tb conformance.TB, sql string, args ...any) {
		tb.Helper()
		if _, err := direct.Exec(context.Background(), strings.ReplaceAll(sql, "jobs.", config.Schema+"."), args...); err != nil {
			tb.Fatalf("%s: %v", sql, err)
		}
	}
	return &conformance.Store{
		Open: func(tb conformance.TB) broker.Broker {
			b, err := New(tb.Context(), p.pool, config)
			if err != nil {
				tb.Fatalf("open: %v", err)
			}
			b.poll = time.Hour // otherwise a missing wake-up would go unnoticed
			return b
		},
		Bounce: func(tb conformance.TB) {
			p.bounced = true
			exec(tb, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1", config.Schema)
		},
		Dump: func() string { return dump(direct, config.Schema) },
		PlantLayout: func(tb conformance.TB, queue string) {
			exec(tb, "update jobs.queue set layout = $2 where name = $1", queue, knownLayout+1) // the next one: the hardest to recognize
		},
		PlantBody: func(tb conformance.TB, queue, id string, body []byte) {
			for _, table := range []string{"job", "dead", "history"} {
				exec(tb, "update jobs."+table+" set body = $3 where id = $2 and queue = (select id from jobs.queue where name = $1)", queue, id,
					append([]byte{}, body...))
			}
		},
	}
}

// dump returns what a schema holds of jobs, in a few lines.
func dump(direct *pgxpool.Pool, schema string) string {
	rows, err := direct.Query(context.Background(), strings.ReplaceAll(`
		select format('%s/%s state %s lane %s seq %s run at %s worker %s epoch %s',
			queue, id, state, lane, seq, run_at, worker, epoch) from jobs.job
		union all select format('%s/%s dead', queue, id) from jobs.dead
		union all select format('%s/%s state %s until %s', queue, id, state, expires_at) from jobs.history
		union all select format('worker %s in %s: number %s until %s ended %s', id, queue, w.num, until, ended_at)
			from jobs.worker w left join jobs.pulse p on p.num = w.pulse
		limit 100`, "jobs.", schema+"."))
	if err != nil {
		return err.Error()
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err.Error()
	}
	return strings.Join(lines, "\n")
}

// schema makes a migrated schema that is gone after the test.
func schema(tb conformance.TB, direct *pgxpool.Pool) string {
	tb.Helper()
	name := "c_" + strings.ToLower(rand.Text())
	if err := Migrate(tb.Context(), direct, name); err != nil {
		tb.Fatalf("migrate: %v", err)
	}
	tb.Cleanup(func() {
		if _, err := direct.Exec(context.Background(), "drop schema "+name+" cascade"); err != nil {
			tb.Errorf("drop the schema: %v", err)
		}
	})
	return name
}

// connect returns a pool of at most n connections.
func connect(tb conformance.TB, url string, n int32) *pgxpool.Pool {
	tb.Helper()
	return connectAs(tb, url, n, "test")
}

// connectAs is connect under a name by which the server knows the connections.
func connectAs(tb conformance.TB, url string, n int32, name string) *pgxpool.Pool {
	tb.Helper()
	return connectIn(tb, url, n, name, "")
}

// connectIn is connectAs in a role, if it is not "".
func connectIn(tb conformance.TB, url string, n int32, name, role string) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	config.MaxConns = n
	config.ConnConfig.RuntimeParams["application_name"] = name
	config.ConnConfig.Tracer = tripCounter{}
	if role != "" {
		config.ConnConfig.RuntimeParams["role"] = role
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(pool.Close)
	return pool
}
