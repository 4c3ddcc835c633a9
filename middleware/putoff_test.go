package middleware_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/chaintest"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/middleware"
)

// A refusal is no run: it does not begin the time of an unknown type anew.
func TestPutOff_RefusalsBetweenDoNotKeepAnUnknownTypeAlive(t *testing.T) {
	t.Parallel()
	for cause, m := range map[string]jobs.Middleware{
		"rate_limited": middleware.RateLimit(middleware.RateLimitConfig{Runs: 1, Per: 10 * time.Minute}),
		"breaker_open": middleware.Breaker(middleware.BreakerConfig{Failures: 1, Pause: 10 * time.Minute,
			Key: func(*jobs.Job) string { return "all" }}),
	} {
		t.Run(cause, func(t *testing.T) {
			chaintest.InBubble(t, func(t *testing.T) {
				w := chaintest.NewWorld(t, jobs.Config{UnknownTypeLimit: 2 * time.Hour, RetryPolicy: jobs.Constant(20 * time.Minute)},
					func(_ context.Context, job *jobs.Job) error {
						if job.Type() == "failing" { // it opens the breaker every 20 minutes, for 10
							return chaintest.ErrFlaky
						}
						return fmt.Errorf("%w: it is new", jobs.ErrUnknownType)
					}, m)
				w.Add("failing", jobs.WithMaxRetries(1000))
				id := w.Add("unknown")
				chaintest.LetPass(110 * time.Minute)
				j := w.Want(id, jobs.StateRetry)
				if refused, unknown := j.PutOffFor(cause).Times, j.PutOffFor("unknown_type").Times; refused < 3 || unknown < 3 {
					t.Errorf("in two hours it was refused %d times and unknown %d times, want both often", refused, unknown)
				}
				chaintest.LetPass(time.Hour)
				if j := w.Want(id, jobs.StateDead); j.Reason != broker.ReasonUnknownType || len(j.Errors.Entries) != 2 {
					t.Errorf("reason %v, %d errors; want unknown_type and two: the first time and the last", j.Reason, len(j.Errors.Entries))
				}
			})
		})
	}
}
