package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Run is one job under a lease, from its claim until its handler returns, and
// the context of that handler. Perform and its handler alone set the first fields.
type Run struct {
	lazyContext
	Job  *broker.Job // as it was claimed
	View any         // what the policy shows to the handler
	InTx bool        // a transaction of the handler completes the job

	server  *Server
	worker  *worker // whose lease it is
	queue   int
	limited *typeLimit // of its type, or nil
	aside   bool       // it waits for room of its type
	claimed time.Time
	since   time.Duration // of slots.watched, when it became ready
	started time.Time
	stuck   *StuckEvent             // once it was reported
	patient time.Time               // until when it waits for its turn
	bound   *boundContext           // the soonest that a middleware set; guarded by lazyContext.mu
	keeping atomic.Pointer[keeping] // nil until something is kept
}

type runKey struct{}

// RunOf returns the run whose context ctx is, or is derived from, or nil.
func RunOf(ctx context.Context) *Run {
	run, _ := ctx.Value(runKey{}).(*Run)
	return run
}

// Value looks up what the run itself has.
func (r *Run) Value(key any) any {
	if key == (runKey{}) {
		return r
	}
	return r.lazyContext.Value(key)
}

// Draining is closed when the server's drain begins, for a handler that waits for
// others of its batch; nil, which never is, outside of a server.
func (r *Run) Draining() <-chan struct{} {
	switch {
	case r == nil || r.server == nil:
		return nil
	case r.server.gathering != nil:
		return r.server.gathering(r)
	}
	return r.server.draining
}

// Worker is the ID of the worker that has the lease.
func (r *Run) Worker() string { return r.worker.id }

// Started is when it began.
func (r *Run) Started() time.Time { return r.started }

// limit sets when time ends the run: after its timeout, or at its deadline,
// whichever is sooner. The deadline is the store's time, as store is.
func (r *Run) limit(timeout time.Duration, store time.Time) {
	j := r.Job
	if j.Timeout > 0 {
		timeout = j.Timeout
	}
	if timeout < broker.NoTimeout {
		r.end, r.endCause = r.started.Add(timeout), ErrTimeout
	}
	if !j.Deadline.IsZero() {
		if left := j.Deadline.Sub(store); r.end.IsZero() || left < timeout {
			r.end, r.endCause = r.started.Add(left), ErrDeadline
		}
	}
}
