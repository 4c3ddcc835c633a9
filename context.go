package jobs

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/internal/engine"
)

// JobFromContext returns the job of a handler's context, or nil: for code that
// gets only the context, such as a log handler.
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
// with ctx if that ends before. A handler that has not returned for Grace
// after End is reported as stuck, as Config.StuckGrace describes, even if the
// run's own timeout has not passed. If bounds are nested, the earlier End
// counts. The caller calls release when the handler has returned; that ends
// the context and restores the bound around it. A handler that does not use
// its context costs no timer.
//
// If ctx is not that of a run by a Server, nothing is reported.
func WithBound(ctx context.Context, b Bound) (bounded context.Context, release func()) {
	return engine.WithBound(ctx, b.End, b.Grace)
}
