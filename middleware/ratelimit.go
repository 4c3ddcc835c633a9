package middleware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/internal/field"
	"github.com/seed81422ce9/jobs/internal/guard"
)

// ErrRateLimited: this process has begun as many runs of the job's type as it
// may. The job was put off without a charge.
var ErrRateLimited = errors.New("the rate limit is reached")

// RateLimitConfig configures RateLimit. Runs is required.
type RateLimitConfig struct {
	// Runs is how many runs may begin Per time, on average: RateLimitConfig{Runs:
	// 100, Per: time.Minute}. A Per of zero means one second.
	Runs int
	Per  time.Duration

	// Burst is how many may begin at once after a quiet time. Zero means as many
	// as may begin in one second, at least 1.
	Burst int

	// MaxDelay bounds how long a job is put off, and so how far ahead times are
	// reserved. A job that would have to wait longer comes back at random between
	// half of it and the whole, and is then given a time, or put off again. Zero
	// means one hour.
	MaxDelay time.Duration

	// Key names the limit that a job is under: what is limited together, such as
	// an account. Nil means one for each task type. Of more than 1000 keys in use
	// the others share one.
	Key func(job *jobs.Job) string

	// OnLimited is called for each run that was refused, with the time until the
	// job comes back. It may be nil.
	OnLimited func(ctx context.Context, job *jobs.Job, delay time.Duration)
}

const defaultMaxDelay = time.Hour

// RateLimit bounds how often the runs of each type begin. A job over the limit
// is put off without a charge, once as a rule: a time to begin is reserved for
// it, each job's an interval after the one before, at which it comes back and
// runs. So jobs begin in the order in which they were first refused, however
// urgent those are that come in later: give urgent jobs a limit of their own,
// by Key, where that matters. A time whose job does not come (it was deleted,
// or another server took it) goes to the next job that does.
//
// Jobs that come back late, because the server was busy, can begin together:
// those of the last Burst intervals, or of the last second if that is longer.
//
// The limit is this process's own: n processes together start n times as many,
// and a job that one process put off has no reservation at another. A refused
// job costs a claim and a settle; where much more comes in than may go out,
// bound Config.QueueConcurrency or Config.TypeConcurrency, or give the type a
// queue of its own.
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
			return fmt.Errorf("%w for %q: %w", ErrRateLimited, l.key, jobs.Snooze(delay))
		})
	}
}
