package engine

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Causes for which a handler's context ends, besides broker.ErrLeaseLost.
var (
	ErrTimeout   = errors.New("jobs: the job's timeout passed")
	ErrDeadline  = errors.New("jobs: the job's deadline passed")
	ErrCancelled = errors.New("jobs: the job was cancelled")
	ErrShutdown  = errors.New("jobs: the server is shutting down")
)

// EndOf returns why the context of a run has ended, or nil. Unlike context.Cause it does
// not make the real context.
func EndOf(ctx context.Context) error {
	if run := RunOf(ctx); run != nil {
		cause, _ := run.Over(time.Now())
		return cause
	}
	return context.Cause(ctx)
}

// WithoutRun returns a context that has the values of ctx, but no run, and does not
// end with it: for code that works for several runs at once.
func WithoutRun(ctx context.Context) context.Context { return apart{context.WithoutCancel(ctx)} }

type apart struct{ context.Context }

func (c apart) Value(key any) any {
	if key == (runKey{}) {
		return nil
	}
	return c.Context.Value(key)
}

// WithBound returns a context that ends at end, or with ctx if ctx ends earlier. If the
// handler has not returned when grace has passed after end, the server reports it as
// stuck. A grace of zero means Options.StuckGrace. release ends the bound.
func WithBound(ctx context.Context, end time.Time, grace time.Duration) (bounded context.Context, release func()) {
	c := &boundContext{lazyContext: lazyContext{parent: ctx, end: end, endCause: ErrTimeout}, grace: grace}
	if run := RunOf(ctx); run != nil && run.server != nil {
		c.run = run
		run.mu.Lock()
		c.next, run.bounds = run.bounds, c
		run.mu.Unlock()
		run.server.lookout.by(c.overdueAt(run.server.opts.StuckGrace))
	}
	return c, c.release
}

// boundContext is the context of a bound.
type boundContext struct {
	lazyContext
	grace time.Duration
	run   *Run          // nil outside of a server
	next  *boundContext // another open bound of the run
}

// release closes the bound. Bounds of several goroutines are closed in any order.
func (c *boundContext) release() {
	if c.run != nil {
		c.run.mu.Lock()
		for at := &c.run.bounds; *at != nil; at = &(*at).next {
			if *at == c {
				*at = c.next
				break
			}
		}
		c.run.mu.Unlock()
	}
	c.Finish(context.Canceled, time.Time{}) // the time of a bound's end is never used
}

// overdueAt returns when a handler that has not returned is stuck by the bound, or zero if
// the bound has no end.
func (c *boundContext) overdueAt(grace time.Duration) time.Time {
	if c.end.IsZero() {
		return c.end
	}
	if c.grace > 0 {
		grace = c.grace
	}
	return c.end.Add(grace)
}

// lazyContext is a context that ends at a time or by Finish. Most short handlers never
// use theirs, so the real context, with its timer, is made at the first use: it takes
// 15 allocations (BenchmarkServerContext), and a job may take 8 in all.
type lazyContext struct {
	parent   context.Context
	end      time.Time // when it ends by itself; zero means never
	endCause error     // ErrTimeout or ErrDeadline

	mu    sync.Mutex
	cause error     // of the first Finish
	ended time.Time // when that was
	real  *realContext
}

// realContext is what a lazyContext becomes.
type realContext struct {
	context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc // nil without an end
}

// causeKey is the key by which package context finds the context that knows the cause.
// A lazyContext that is asked for it has to make the real context. The package does not
// export the key, but passes it to any context in context.Cause.
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

// Deadline returns when the context ends by itself, or its parent does.
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

// Value returns the parent's value.
func (c *lazyContext) Value(key any) any {
	if key == causeKey {
		return c.made().Value(key)
	}
	return c.parent.Value(key)
}

// made returns the real context. The first call makes it.
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

// Finish ends the context with a cause, unless it has ended.
func (c *lazyContext) Finish(cause error, now time.Time) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause, c.ended = cause, now
	}
	made := c.real
	c.mu.Unlock()
	if made == nil {
		return
	}
	// Not under the lock: contexts that the handler derived may call this one.
	made.cancel(cause)
	if made.stop != nil {
		made.stop()
	}
}

// Over returns why and since when the context has ended, or nil.
func (c *lazyContext) Over(now time.Time) (cause error, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := !c.end.IsZero() && !now.Before(c.end)
	if late && (c.cause == nil || c.end.Before(c.ended)) {
		return c.endCause, c.end
	}
	return c.cause, c.ended
}
