package middleware

import (
	"context"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/field"
)

// TimeoutConfig configures Timeout. Soft is required.
type TimeoutConfig struct {
	// Soft is the time after which the handler's context ends, with cause
	// jobs.ErrTimeout. A run whose own time is up sooner, see jobs.WithTimeout,
	// ends then.
	Soft time.Duration

	// Hard is the time, from the start as well, after which a handler that has
	// still not returned is stuck: the server logs its stack, calls
	// jobs.Hooks.Stuck, and is not ready once half of its slots are held by such
	// handlers, so that an orchestrator replaces the process. Zero means the
	// server's StuckGrace (30 seconds unless it was configured) after Soft.
	Hard time.Duration
}

// Timeout bounds the time of the handlers inside of it. Nothing can end a
// goroutine from outside: Soft asks the handler to return, Hard tells the
// people. The slot is held until the handler has really returned, so that the
// job cannot run twice at once, and a handler that returns nil late has
// completed its job.
//
// An error that is returned after Soft is, besides itself, jobs.ErrTimeout,
// and is recorded with jobs.ClassTimeout unless it was Classified.
// Hard needs a server: it does nothing where a test calls the handler itself.
func Timeout(cfg TimeoutConfig) jobs.Middleware {
	if cfg.Soft <= 0 || cfg.Soft > broker.MaxDelay {
		field.Refuse("TimeoutConfig.Soft", "is %v; use more than zero and at most %v", cfg.Soft, time.Duration(broker.MaxDelay))
	}
	if cfg.Hard != 0 && cfg.Hard <= cfg.Soft {
		field.Refuse("TimeoutConfig.Hard", "is %v; use more than Soft, which is %v, or 0 for the server's StuckGrace after it",
			cfg.Hard, cfg.Soft)
	}
	return func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
			began := time.Now()
			bound := jobs.Bound{End: began.Add(cfg.Soft)}
			if cfg.Hard > 0 {
				bound.Grace = cfg.Hard - cfg.Soft
			}
			soft, release := jobs.WithBound(ctx, bound)
			defer release()
			err := next.ProcessJob(soft, job)
			if err != nil && time.Since(began) >= cfg.Soft {
				return &timeoutError{after: cfg.Soft, err: err}
			}
			return err
		})
	}
}

// timeoutError is the error of a run that Timeout has cut off.
type timeoutError struct {
	after time.Duration
	err   error
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("after the timeout of %v: %v", e.after, e.err)
}
func (e *timeoutError) Unwrap() []error { return []error{jobs.ErrTimeout, e.err} }
