package jobs

import (
	"context"
	"fmt"
)

// Handler processes jobs. If it returns nil, the job is completed. If it
// returns an error, the job is retried by policy, unless the error decides
// otherwise: see SkipRetry, RetryAfter, Snooze and Cancel. A job can be
// processed more than once, also after a run that succeeded, so a handler must
// be idempotent.
//
// The context ends when the job's timeout or deadline passes, when the job is
// cancelled, when its lease is lost, or when a drain runs out of time;
// context.Cause says which. A handler keeps its slot until it returns.
type Handler interface {
	ProcessJob(ctx context.Context, job *Job) error
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, job *Job) error

// ProcessJob calls f.
func (f HandlerFunc) ProcessJob(ctx context.Context, job *Job) error { return f(ctx, job) }

// Middleware wraps a handler. It decides outcomes by the error that it
// returns. It never runs its handler more than once per call.
type Middleware func(Handler) Handler

// Chain joins middleware into one. The first is outermost. Nil entries are
// skipped. The chain panics when it is put around a handler, if one of them
// returns a nil Handler.
func Chain(chain ...Middleware) Middleware {
	return func(h Handler) Handler {
		for i := len(chain) - 1; i >= 0; i-- {
			if chain[i] == nil {
				continue
			}
			if h = chain[i](h); h == nil {
				panic(fmt.Sprintf("jobs: number %d (from 0) of a chain of middleware returned a nil Handler", i))
			}
		}
		return h
	}
}
