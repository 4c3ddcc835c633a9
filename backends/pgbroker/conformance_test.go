package pgbroker_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	direct := connect(t, url, 2)
	conformance.Run(t, func(tb conformance.TB) *conformance.Store {
		return store(tb, direct, url, pgbroker.Config{})
	})
}

func TestConformanceThroughPgBouncer(t *testing.T) {
	t.Parallel()
	url := testenv.PgBouncer(t)
	direct := connect(t, testenv.Postgres(t), 2)
	conformance.Run(t, func(tb conformance.TB) *conformance.Store {
		return store(tb, direct, url, pgbroker.Config{PollOnly: true})
	})
}

// store is a schema of its own, reached through a pool of its own.
func store(tb conformance.TB, direct *pgxpool.Pool, url string, config pgbroker.Config) *conformance.Store {
	tb.Helper()
	config.Schema = schema(tb, direct)
	pool := connect(tb, url, 8)
	return &conformance.Store{
		Open: func(tb conformance.TB) broker.Broker {
			b, err := pgbroker.New(tb.Context(), pool, config)
			if err != nil {
				tb.Fatalf("open: %v", err)
			}
			return b
		},
	}
}

// schema makes a migrated schema that is gone after the test.
func schema(tb conformance.TB, direct *pgxpool.Pool) string {
	tb.Helper()
	name := "c_" + strings.ToLower(rand.Text())
	if err := pgbroker.Migrate(tb.Context(), direct, name); err != nil {
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
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	config.MaxConns = n
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(pool.Close)
	return pool
}
