package jobs

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/internal/engine"
)

// JobFromContext returns the job that a handler's context is for, or nil: for
// code that is handed the context alone, such as a log handler.
func JobFromContext(ctx context.Context) *Job {
	if run := engine.RunOf(ctx); run != nil {
		job, _ := run.View.(*Job)
		return job
	}
	return nil
}

// Bound is a time limit that a middleware sets within a run; see WithBound.
type Bound struct {
	End   time.Time     // when the handler should have returned
	Grace time.Duration // how long after that it is stuck; zero means Config.StuckGrace
}

// WithBound returns a context that ends at b.End with cause ErrTimeout, or
// with ctx if that ends before, and tells the server of it: a handler that goes
// on for Grace after End is reported as stuck, as Config.StuckGrace describes,
// although the run's own time may not be up. Of a bound within another one the
// sooner End counts. Who sets a bound calls release once the handler has
// returned; that ends the context and brings back the bound around it. A
// handler that does not look at its context pays for no timer.
//
// Where ctx is not that of a run by a Server, nothing is reported.
func WithBound(ctx context.Context, b Bound) (bounded context.Context, release func()) {
	return engine.WithBound(ctx, b.End, b.Grace)
}
