package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Run is one job under a lease, from its claim until its handler returns, and
// the context of that handler. Only Perform and its handler set View, InTx and Committed.
type Run struct {
	lazyContext
	Job  *broker.Job // as it was claimed
	View any         // what the policy passes to the handler
	InTx bool        // a transaction of the handler completes the job
	// Committed: the handler says that this transaction has committed.
	Committed bool

	server  *Server
	worker  *worker // whose lease it is
	queue   int
	limited *typeLimit // of its type, or nil
	aside   bool       // it waits for its type
	claimed time.Time
	since   time.Duration // the value of slots.watched when the run became ready
	started time.Time
	stuck   *StuckEvent             // set once it was reported as stuck
	patient time.Time               // until when a guarded run waits
	bounds  *boundContext           // the open ones; guarded by lazyContext.mu
	keeping atomic.Pointer[keeping] // nil until something is kept
}

type runKey struct{}

// RunOf returns the run whose context ctx is, or is derived from, or nil.
func RunOf(ctx context.Context) *Run {
	run, _ := ctx.Value(runKey{}).(*Run)
	return run
}

// Value returns the run itself for RunOf, and otherwise the parent's value.
func (r *Run) Value(key any) any {
	if key == (runKey{}) {
		return r
	}
	return r.lazyContext.Value(key)
}

// Draining returns a channel that is closed when the server's drain begins. A handler
// that waits for a batch of jobs then stops waiting. The channel is nil for a run without
// a server.
func (r *Run) Draining() <-chan struct{} {
	switch {
	case r == nil || r.server == nil:
		return nil
	case r.server.gathering != nil:
		return r.server.gathering(r)
	}
	return r.server.draining
}

// Worker returns the ID of the worker that has the lease.
func (r *Run) Worker() string { return r.worker.id }

// Started returns when the run began.
func (r *Run) Started() time.Time { return r.started }

// limit sets when the run's context ends: after its timeout or at its deadline,
// whichever is sooner. store is the store's time now, by which the deadline counts.
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
