package jobs

import (
	"context"
	"sync"
	"time"
)

// JobFromContext returns the job that a handler's context is for, or nil: for
// code that is handed the context alone, such as a log handler.
func JobFromContext(ctx context.Context) *Job {
	job, _ := ctx.Value(jobKey{}).(*Job)
	return job
}

type (
	jobKey struct{}
	runKey struct{}
)

// runOf returns the context of the run that ctx is, or is derived from, or nil.
func runOf(ctx context.Context) *runContext {
	run, _ := ctx.Value(runKey{}).(*runContext)
	return run
}

// endOf returns why the context of a run has ended, or nil. Unlike
// context.Cause it does not need the real one.
func endOf(ctx context.Context) error {
	if run := runOf(ctx); run != nil {
		cause, _ := run.over(time.Now())
		return cause
	}
	return context.Cause(ctx)
}

// Bound is a time limit that a middleware sets within a run; see SetBound.
type Bound struct {
	End   time.Time     // when the handler should return; zero means no bound
	Grace time.Duration // how long after that it is stuck; zero means Config.StuckGrace
}

// SetBound tells the server by when the handler of ctx should return, and
// returns what it was told before, to be set again once it has. A handler that
// goes on for Grace after End is reported as stuck, as Config.StuckGrace
// describes, although the run's own time may not be up. SetBound ends no
// context: who sets a bound does that. It does nothing, and returns the zero
// Bound, unless ctx is that of a run by a Server, or derived from one.
func SetBound(ctx context.Context, b Bound) (previous Bound) {
	run := runOf(ctx)
	if run == nil {
		return Bound{}
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	previous, run.bound = run.bound, b
	return previous
}

// runContext is the context of one run. Most short handlers never look at
// theirs, so the real one, with its timer, is made when somebody does.
type runContext struct {
	values   context.Context // for what the caller of Run put there; never ends
	job      *Job
	end      time.Time // when time ends the run; zero when it does not
	endCause error     // ErrTimeout or ErrDeadline

	mu     sync.Mutex
	cause  error     // why the run was ended, other than by time
	ended  time.Time // when that was
	bound  Bound     // that a middleware set
	real   context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc
}

// causeKey is the key under which package context looks for the context that
// knows the cause: asked for it, a runContext has to be real. The package does
// not export it, but shows it to any context whose cause is wanted.
var causeKey = func() any {
	var probe keyProbe
	context.Cause(&probe)
	return probe.key
}()

type keyProbe struct {
	context.Context
	key any
}

func (p *keyProbe) Err() error        { return context.Canceled }
func (p *keyProbe) Value(key any) any { p.key = key; return nil }

// Deadline is when time ends the run.
func (c *runContext) Deadline() (time.Time, bool) { return c.end, !c.end.IsZero() }

// Done is closed when the run should end.
func (c *runContext) Done() <-chan struct{} { return c.made().Done() }

// Err is not nil once the run should end.
func (c *runContext) Err() error { return c.made().Err() }

// Value looks up what the caller of Run put there.
func (c *runContext) Value(key any) any {
	switch key {
	case causeKey:
		return c.made().Value(key)
	case jobKey{}:
		return c.job
	case runKey{}:
		return c
	}
	return c.values.Value(key)
}

// made returns the real context.
func (c *runContext) made() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil {
		c.real, c.cancel = context.WithCancelCause(c.values)
		if !c.end.IsZero() {
			c.real, c.stop = context.WithDeadlineCause(c.real, c.end, c.endCause)
		}
		if c.cause != nil {
			c.cancel(c.cause)
		}
	}
	return c.real
}

// finish ends the context for cause, unless it ended before.
func (c *runContext) finish(cause error, now time.Time) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause, c.ended = cause, now
	}
	cancel, stop := c.cancel, c.stop
	c.mu.Unlock()
	// Outside of the lock: what the handler derived may ask this context back.
	if cancel != nil {
		cancel(cause)
	}
	if stop != nil {
		stop()
	}
}

// over returns why and since when the context has ended, or nil.
func (c *runContext) over(now time.Time) (cause error, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := !c.end.IsZero() && !now.Before(c.end)
	if late && (c.cause == nil || c.end.Before(c.ended)) {
		return c.endCause, c.end
	}
	return c.cause, c.ended
}

// overdue returns why, and since when, the handler should have returned, once
// grace, or that of its bound, has passed; otherwise nil.
func (c *runContext) overdue(now time.Time, grace time.Duration) (cause error, since time.Time) {
	if cause, since = c.over(now); cause != nil && now.Sub(since) >= grace {
		return cause, since
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bound.Grace > 0 {
		grace = c.bound.Grace
	}
	if c.bound.End.IsZero() || now.Sub(c.bound.End) < grace {
		return nil, time.Time{}
	}
	return ErrTimeout, c.bound.End
}
