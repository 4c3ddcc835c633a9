package middleware

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed81422ce9/jobs"
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

	// MaxDelay bounds how long a job is put off. Jobs that would have to wait
	// longer come back at random between half of it and the whole, and are put
	// off again if there is still no room. Zero means 5 minutes.
	MaxDelay time.Duration

	// Key names the limit that a job is under: what is limited together, such as
	// an account. Nil means one for each task type. Beyond 1000 keys the others
	// share one.
	Key func(job *jobs.Job) string

	// OnLimited is called for each run that was refused, with the time until the
	// job comes back. It may be nil.
	OnLimited func(ctx context.Context, job *jobs.Job, delay time.Duration)
}

const defaultMaxDelay = 5 * time.Minute

// RateLimit bounds how often the runs of each type begin. A job over the limit
// is put off without a charge. Each such job is given a later time than the one
// before it, as the rate allows, and a little at random, so that they come back
// one by one and not all at once. Jobs that come in meanwhile may go first: a
// limit keeps no order.
//
// The limit is this process's own: n processes together start n times as many.
// A refused job costs a claim and a settle; where much more comes in than may
// go out, bound Config.QueueConcurrency, or give the type a queue of its own.
func RateLimit(cfg RateLimitConfig) jobs.Middleware {
	if cfg.Runs < 1 || cfg.Runs > maxCount {
		refuse("RateLimitConfig.Runs", "is %d; use 1 to %d", cfg.Runs, maxCount)
	}
	durationOr("RateLimitConfig.Per", &cfg.Per, time.Second)
	limit := rate.Limit(float64(cfg.Runs) / cfg.Per.Seconds())
	countOr("RateLimitConfig.Burst", &cfg.Burst, max(1, int(limit)))
	durationOr("RateLimitConfig.MaxDelay", &cfg.MaxDelay, defaultMaxDelay)
	if cfg.Key == nil {
		cfg.Key = typeOf
	}
	limits := newByType(func(key string) *pace {
		return &pace{key: key, runs: rate.NewLimiter(limit, cfg.Burst), returns: rate.NewLimiter(limit, 1),
			interval: time.Duration(float64(time.Second) / float64(limit))}
	})
	return func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
			l := limits.get(cfg.Key(job))
			delay, limited := l.take(time.Now(), cfg.MaxDelay)
			if !limited {
				return next.ProcessJob(ctx, job)
			}
			if cfg.OnLimited != nil {
				cfg.OnLimited(ctx, job, delay)
			}
			return fmt.Errorf("%w for %q: %w", ErrRateLimited, l.key, jobs.Snooze(delay))
		})
	}
}

// pace is the limit of one key.
type pace struct {
	key      string
	runs     *rate.Limiter
	returns  *rate.Limiter // gives each refused job a time of its own to come back
	interval time.Duration // between two runs
}

// take begins a run, or says when to come back.
func (l *pace) take(now time.Time, longest time.Duration) (delay time.Duration, limited bool) {
	if l.runs.AllowN(now, 1) {
		return 0, false
	}
	turn := l.returns.ReserveN(now, 1)
	delay = turn.DelayFrom(now) + l.interval
	delay += rand.N(delay/10 + 1)
	if delay > longest {
		turn.CancelAt(now)
		delay = longest/2 + rand.N(longest/2+1)
	}
	return delay, true
}
