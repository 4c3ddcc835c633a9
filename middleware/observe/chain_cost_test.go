//go:build !race

// The race detector allocates too, which would be counted here.

package observe_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/internal/chaintest"

	"github.com/seed81422ce9/jobs/middleware/observe"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/middleware"
)

// costs returns chains around a handler that does nothing, each with the number
// of allocations that one run may make.
func costs() []struct {
	name    string
	chain   jobs.Middleware
	handler jobs.HandlerFunc
	allocs  float64
} {
	fine, flaky := chaintest.Returning(nil), chaintest.Returning(chaintest.ErrFlaky)
	logging := observe.Logging(observe.LoggingConfig{Logger: slog.New(discard{})})
	unheard := observe.Logging(observe.LoggingConfig{Logger: slog.New(slog.DiscardHandler)})
	limit := middleware.RateLimit(middleware.RateLimitConfig{Runs: 1_000_000, Per: time.Millisecond})
	tight := middleware.RateLimit(middleware.RateLimitConfig{Runs: 1, Per: time.Hour})
	breaker := middleware.Breaker(middleware.BreakerConfig{})
	retry := middleware.Retry(middleware.RetryConfig{Attempts: 8, Backoff: jobs.Exponential(time.Second, time.Hour)})
	timeout := middleware.Timeout(middleware.TimeoutConfig{Soft: time.Minute, Hard: 2 * time.Minute})
	recovery := middleware.Recovery(nil)
	return []struct {
		name    string
		chain   jobs.Middleware
		handler jobs.HandlerFunc
		allocs  float64
	}{
		{"none", jobs.Chain(), fine, 0},
		{"Logging", logging, fine, 1},
		{"Logging, not wanted", unheard, fine, 0},
		{"RateLimit", limit, fine, 0},
		{"RateLimit, refused", tight, fine, 9},
		{"Breaker", breaker, fine, 1},
		{"Retry", retry, fine, 0},
		{"Retry, failed", retry, flaky, 12},
		{"Timeout", timeout, fine, 2},
		{"Recovery", recovery, fine, 0},
		{"all", jobs.Chain(logging, limit, breaker, retry, timeout, recovery), fine, 4},
	}
}

// discard is enabled and drops the lines. slog.DiscardHandler is not enabled, so
// that lines for it are never made.
type discard struct{}

func (discard) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (discard) Handle(context.Context, slog.Record) error    { return nil }
func (d discard) WithAttrs([]slog.Attr) slog.Handler         { return d }
func (d discard) WithGroup(string) slog.Handler              { return d }

func TestChainCost_ARunAllocatesNoMoreThanItsChainMay(t *testing.T) {
	// Not parallel: allocations of other tests would be counted.
	ctx, job := context.Background(), chaintest.AJob("a")
	for _, c := range costs() {
		h := c.chain(c.handler)
		if n := testing.AllocsPerRun(200, func() { _ = h.ProcessJob(ctx, job) }); n > c.allocs {
			t.Errorf("%s: %v allocations a run, the limit is %v", c.name, n, c.allocs)
		}
	}
}

func TestChainCost_ValidationAndDefaultsAllocateNothing(t *testing.T) {
	next := func(context.Context, []*jobs.Outgoing) {}
	chain := middleware.Defaults(func(context.Context, *broker.NewJob) middleware.TaskDefaults {
		return middleware.TaskDefaults{Source: "web"}
	})(
		middleware.Validate(middleware.KnownTypes("a", "b:*"), middleware.MaxPayload(100))(next))
	batch := []*jobs.Outgoing{{NewJob: broker.NewJob{Body: broker.Body{Type: "b:c"}}}}
	if n := testing.AllocsPerRun(200, func() { chain(context.Background(), batch) }); n > 0 {
		t.Errorf("%v allocations for each job", n)
	}
}

func BenchmarkChain(b *testing.B) {
	ctx, job := context.Background(), chaintest.AJob("a")
	for _, c := range costs() {
		b.Run(c.name, func(b *testing.B) {
			h := c.chain(c.handler)
			b.ReportAllocs()
			for b.Loop() {
				_ = h.ProcessJob(ctx, job)
			}
		})
	}
}
