package middleware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/internal/field"
	"github.com/seed81422ce9/jobs/internal/guard"
	"github.com/seed81422ce9/jobs/internal/putoff"
)

// ErrRateLimited says that this process has started as many runs of the job's type as
// its limit allows. The job was snoozed without a charge.
var ErrRateLimited = errors.New("the rate limit is reached")

// RateLimitConfig configures RateLimit. Runs is required.
type RateLimitConfig struct {
	// Runs is how many runs may start in each Per, on average: RateLimitConfig{Runs:
	// 100, Per: time.Minute}. It is required.
	Runs int
	// Per is the period over which Runs counts. Zero means one second.
	Per time.Duration

	// Burst is how many runs may start at once after an idle time. Zero means as many as may start in
	// one second, at least 1.
	Burst int

	// MaxDelay is the longest snooze of a job, and so how far ahead start times are
	// reserved. A job that would have to wait longer is snoozed for a random time
	// between half of MaxDelay and all of it; after that it gets a start time or is
	// snoozed again. Zero means one hour.
	MaxDelay time.Duration

	// Key returns the limit that a job counts under, such as an account. Nil means one
	// limit for each task type. While more than 1000 keys are in use, further ones
	// share one limit.
	Key func(job *jobs.Job) string

	// OnLimited, unless nil, is called for each refused run, with the snooze. If it
	// panics, that is logged.
	OnLimited func(ctx context.Context, job *jobs.Job, delay time.Duration)
}

const defaultMaxDelay = time.Hour

// RateLimit limits how often runs of each type start. A job over the limit is snoozed
// without a charge, usually once: RateLimit reserves a start time for it and snoozes it until then.
// Start times are an interval apart. So jobs start in the order in which they were first refused, even
// if later ones have a higher priority; if that matters, give urgent jobs their own limit by Key. If a
// job does not come back (it was deleted, or another server claimed it), the next job gets its start
// time.
//
// Jobs that come back late, because the server was busy, can start together: those of
// the last Burst intervals, or of the last second if that is longer.
//
// The limit holds for this process: n processes together start n times as many, and a
// job that one process snoozed has no start time in another. For a limit over all
// workers use a queue's policy. A refused job costs a claim and a settle. If jobs keep
// arriving much faster than the limit allows, lower Config.QueueConcurrency or
// Config.TypeConcurrency, or give the type its own queue.
func RateLimit(cfg RateLimitConfig) jobs.Middleware {
	if cfg.Runs < 1 || cfg.Runs > field.MaxCount {
		field.Refuse("RateLimitConfig.Runs", "is %d; use 1 to %d", cfg.Runs, field.MaxCount)
	}
	field.DurationOr("RateLimitConfig.Per", &cfg.Per, time.Second)
	interval := max(cfg.Per/time.Duration(cfg.Runs), 1)
	field.CountOr("RateLimitConfig.Burst", &cfg.Burst, max(1, int(time.Second/interval)))
	field.DurationOr("RateLimitConfig.MaxDelay", &cfg.MaxDelay, defaultMaxDelay)
	if cfg.Key == nil {
		cfg.Key = typeOf
	}
	limits := newPaces(&cfg, interval)
	var told guard.Callbacks
	return func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
			l := limits.get(cfg.Key(job))
			delay := l.take(nameOf(job), time.Now())
			if delay == 0 {
				return next.ProcessJob(ctx, job)
			}
			if cfg.OnLimited != nil {
				told.Call("RateLimitConfig.OnLimited", func() { cfg.OnLimited(ctx, job, delay) })
			}
			return fmt.Errorf("%w for %q: %w", ErrRateLimited, l.key, &putoff.Snooze{Delay: delay, Cause: "rate_limited"})
		})
	}
}
