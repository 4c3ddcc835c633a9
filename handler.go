package jobs

import (
	"context"
	"fmt"
)

// Handler processes jobs. Returning nil completes the job. Returning an error
// retries it by policy, unless the error says otherwise: see SkipRetry,
// RetryAfter, Snooze and Cancel. A job may be processed more than once, also
// after a run that succeeded, so a handler must be idempotent.
//
// The context ends when the job's timeout or deadline passes, when the job is
// cancelled, when its lease is lost, or when a drain runs out of time;
// context.Cause tells which. A handler keeps its slot until it returns.
type Handler interface {
	ProcessJob(ctx context.Context, job *Job) error
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, job *Job) error

// ProcessJob calls f.
func (f HandlerFunc) ProcessJob(ctx context.Context, job *Job) error { return f(ctx, job) }

// Middleware wraps a handler. It decides outcomes by the error it returns and
// never runs its handler more than once per call.
type Middleware func(Handler) Handler

// Chain joins middleware into one: the first is outermost. Nil entries are
// skipped. One that returns a nil Handler is a mistake, for which the chain
// panics when it is put around a handler.
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
