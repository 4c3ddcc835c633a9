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
	c := &boundContext{lazyContext: lazyContext{parent: ctx, end: b.End, endCause: ErrTimeout}, grace: b.Grace, run: runOf(ctx)}
	if run := c.run; run != nil {
		run.mu.Lock()
		if c.outer = run.bound; c.outer == nil || c.end.Before(c.outer.end) {
			run.bound = c
		}
		run.mu.Unlock()
		c.expectEnd()
	}
	return c, c.release
}

// boundContext is the context of a bound.
type boundContext struct {
	lazyContext
	grace time.Duration
	run   *runContext   // nil outside of a server
	outer *boundContext // the bound around it
}

func (c *boundContext) release() {
	if c.run != nil {
		c.run.mu.Lock()
		c.run.bound = c.outer
		c.run.mu.Unlock()
		if c.outer != nil {
			c.outer.expectEnd()
		}
	}
	c.finish(context.Canceled, time.Time{}) // nobody asks a bound since when it is over
}

// expectEnd has the server look whether the handler is stuck.
func (c *boundContext) expectEnd() {
	s := c.run.server
	grace := c.grace
	if grace <= 0 {
		grace = s.cfg.StuckGrace
	}
	s.lookout.by(c.end.Add(grace))
}

// runContext is the context of one run. Its parent has what the caller of Run
// put there, and never ends.
type runContext struct {
	lazyContext
	job    *Job
	server *Server
	bound  *boundContext // the soonest that a middleware set; guarded by mu
}

// Value looks up what the run itself has.
func (c *runContext) Value(key any) any {
	switch key {
	case jobKey{}:
		return c.job
	case runKey{}:
		return c
	}
	return c.lazyContext.Value(key)
}

// lazyContext is a context that time ends, or finish. Most short handlers never
// look at theirs, so the real one, with its timer, is made when somebody does.
type lazyContext struct {
	parent   context.Context
	end      time.Time // when time ends it; zero when it does not
	endCause error     // ErrTimeout or ErrDeadline

	mu    sync.Mutex
	cause error     // why it was ended, other than by time
	ended time.Time // when that was
	real  *realContext
}

// realContext is what a lazyContext becomes.
type realContext struct {
	context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc // nil when time does not end it
}

// causeKey is the key under which package context looks for the context that
// knows the cause: asked for it, a lazyContext has to be real. The package does
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

// Deadline is when time ends it.
func (c *lazyContext) Deadline() (time.Time, bool) {
	end, ok := c.parent.Deadline()
	if !c.end.IsZero() && (!ok || c.end.Before(end)) {
		return c.end, true
	}
	return end, ok
}

// Done is closed when the run should end.
func (c *lazyContext) Done() <-chan struct{} { return c.made().Done() }

// Err is not nil once the run should end.
func (c *lazyContext) Err() error { return c.made().Err() }

// Value looks up what the parent has.
func (c *lazyContext) Value(key any) any {
	if key == causeKey {
		return c.made().Value(key)
	}
	return c.parent.Value(key)
}

// made returns the real context.
func (c *lazyContext) made() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil {
		c.real = &realContext{}
		c.real.Context, c.real.cancel = context.WithCancelCause(c.parent)
		if !c.end.IsZero() {
			c.real.Context, c.real.stop = context.WithDeadlineCause(c.real.Context, c.end, c.endCause)
		}
		if c.cause != nil {
			c.real.cancel(c.cause)
		}
	}
	return c.real.Context
}

// finish ends the context for cause, unless it ended before.
func (c *lazyContext) finish(cause error, now time.Time) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause, c.ended = cause, now
	}
	made := c.real
	c.mu.Unlock()
	if made == nil {
		return
	}
	// Outside of the lock: what the handler derived may ask this context back.
	made.cancel(cause)
	if made.stop != nil {
		made.stop()
	}
}

// over returns why and since when the context has ended, or nil.
func (c *lazyContext) over(now time.Time) (cause error, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := !c.end.IsZero() && !now.Before(c.end)
	if late && (c.cause == nil || c.end.Before(c.ended)) {
		return c.endCause, c.end
	}
	return c.cause, c.ended
}

// overdueAt is when overdue will say something, or zero if nobody knows.
func (c *runContext) overdueAt(grace time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.end
	if c.cause != nil {
		end = earliest(end, c.ended)
	}
	if !end.IsZero() {
		end = end.Add(grace)
	}
	if c.bound == nil || c.bound.end.IsZero() {
		return end
	}
	if c.bound.grace > 0 {
		grace = c.bound.grace
	}
	return earliest(end, c.bound.end.Add(grace))
}

// overdue returns why, and since when, the handler should have returned, once
// grace, or that of its bound, has passed; otherwise nil.
func (c *runContext) overdue(now time.Time, grace time.Duration) (cause error, since time.Time) {
	if cause, since = c.over(now); cause != nil && now.Sub(since) >= grace {
		return cause, since
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bound == nil || c.bound.end.IsZero() {
		return nil, time.Time{}
	}
	if c.bound.grace > 0 {
		grace = c.bound.grace
	}
	if now.Sub(c.bound.end) < grace {
		return nil, time.Time{}
	}
	return ErrTimeout, c.bound.end
}
