package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/internal/engine"
)

// Handler processes jobs. If it returns nil, the job is completed. If it
// returns an error, the job is retried by policy, unless the error decides
// otherwise: see SkipRetry, RetryAfter, Snooze and Cancel. A job can be
// processed more than once, even after a run that succeeded, so a handler must
// be idempotent. Several goroutines call ProcessJob at once. A panic counts as an
// error; see PanicError.
//
// The context ends when the job's timeout or deadline passes, when the job is
// cancelled, when its lease is lost, or when a drain runs out of time. Then
// context.Cause returns ErrTimeout, ErrDeadline, ErrCancelled, ErrLeaseLost or
// ErrShutdown. A handler keeps its slot until it returns.
type Handler interface {
	ProcessJob(ctx context.Context, job *Job) error
}

// HandlerFunc makes a Handler of a function.
type HandlerFunc func(ctx context.Context, job *Job) error

// ProcessJob calls f.
func (f HandlerFunc) ProcessJob(ctx context.Context, job *Job) error { return f(ctx, job) }

// Middleware wraps a handler. The handler that it returns decides the outcome by its
// error, and must call the wrapped handler at most once in each call.
type Middleware func(Handler) Handler

// Chain joins middleware into one. The first is outermost. Nil entries are
// skipped. If one of them returns a nil Handler, the chain panics when it is called
// with a handler.
func Chain(chain ...Middleware) Middleware {
	return func(h Handler) Handler {
		for i := len(chain) - 1; i >= 0; i-- {
			if chain[i] == nil {
				continue
			}
			if h = chain[i](h); h == nil {
				panic(fmt.Sprintf("jobs: middleware %d (from 0) of a chain returned a nil Handler", i))
			}
		}
		return h
	}
}

// Bound is a time limit that middleware sets within a run; see WithBound.
type Bound struct {
	End   time.Time     // when the handler should have returned
	Grace time.Duration // how long after End it is reported as stuck; zero means Config.StuckGrace
}

// WithBound returns a context that ends at b.End with cause ErrTimeout, or
// with ctx if ctx ends earlier. A handler that has not returned when Grace has
// passed after End is reported as stuck, as Config.StuckGrace describes, even if
// the run's own timeout has not passed. Bounds can be nested, or used side by
// side in several goroutines; each counts until it is released. The caller calls
// release when the handler has returned; that ends the context. A handler that
// does not use its context costs no timer.
//
// If ctx does not come from a Server, nothing is reported.
func WithBound(ctx context.Context, b Bound) (bounded context.Context, release func()) {
	return engine.WithBound(ctx, b.End, b.Grace)
}
