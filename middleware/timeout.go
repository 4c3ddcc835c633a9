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
	// Soft is how long after the start the handler's context ends, with cause jobs.ErrTimeout. A shorter
	// timeout of the job (see jobs.WithTimeout) still applies.
	Soft time.Duration

	// Hard is how long after the start a handler that has not returned is reported as
	// stuck: the server logs its stack and calls jobs.Hooks.Stuck. Once such handlers
	// hold half of the slots, the server is not ready, so that an orchestrator replaces
	// the process. Zero means jobs.Config.StuckGrace (30 seconds by default) after Soft.
	Hard time.Duration
}

// Timeout limits the time of the handlers inside it. Go cannot end a goroutine from
// outside: Soft asks the handler to return, and Hard alerts operators. The handler
// keeps its slot until it returns, so that the job cannot run twice at once. A handler
// that returns nil late has completed its job.
//
// An error that a handler returns after Soft is also jobs.ErrTimeout, and is recorded
// with jobs.ClassTimeout unless it was Classified. Hard needs a server: it does nothing
// when a test calls the handler itself.
func Timeout(cfg TimeoutConfig) jobs.Middleware {
	if cfg.Soft < field.Least || cfg.Soft > broker.MaxDelay {
		field.Refuse("TimeoutConfig.Soft", "is %v; use %v to %v", cfg.Soft, field.Least, broker.MaxDelay)
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

// timeoutError is the error of a handler that returned after Soft.
type timeoutError struct {
	after time.Duration
	err   error
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("after the timeout of %v: %v", e.after, e.err)
}
func (e *timeoutError) Unwrap() []error { return []error{jobs.ErrTimeout, e.err} }
