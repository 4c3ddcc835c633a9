package deadconn

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A pool of one connection that never answers again has another one soon, whether a ping or
// the caller's statement finds that out.
func TestBound_APoolReplacesADeadConnection(t *testing.T) {
	t.Parallel()
	for name, pings := range map[string]bool{"found by a ping": true, "found by a statement": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opened, silent atomic.Int64 // connections, and the number of the last dead one
			over := make(chan struct{})
			url := testenv.Proxy(t, testenv.Postgres(t), func() func([]byte) (int, bool) {
				n := opened.Add(1)
				return func(answer []byte) (int, bool) {
					if n <= silent.Load() {
						<-over
					}
					return len(answer), false
				}
			})
			t.Cleanup(func() { close(over) })
			config, err := pgxpool.ParseConfig(url)
			if err != nil {
				t.Fatal(err)
			}
			closed := false
			config.MaxConns, config.BeforeClose = 1, func(*pgx.Conn) { closed = true }
			config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { // only the dead one
				return pings && opened.Load() == silent.Load()
			}
			bound(config, 50*time.Millisecond, 10*time.Millisecond)
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			if err := pool.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			silent.Store(opened.Load())
			if !pings {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if _, err := pool.Exec(ctx, "select 1"); err == nil {
					t.Fatal("the dead connection answers")
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := pool.Exec(ctx, "select 1"); err != nil {
				t.Errorf("a statement on a new connection: %v", err)
			}
			pool.Close()
			if !closed {
				t.Error("the caller's own function was not called")
			}
		})
	}
}
