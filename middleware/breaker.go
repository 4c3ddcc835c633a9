package middleware

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/internal/field"
	"github.com/seed81422ce9/jobs/internal/guard"
	"github.com/seed81422ce9/jobs/internal/putoff"
)

// ErrBreakerOpen says that the circuit breaker of the job's type is open. The job was
// snoozed without a charge.
var ErrBreakerOpen = errors.New("the circuit breaker is open")

// BreakerState is the state of a circuit breaker.
type BreakerState string

// The states of a circuit breaker.
const (
	BreakerClosed   BreakerState = "closed"    // all runs pass
	BreakerOpen     BreakerState = "open"      // none passes
	BreakerHalfOpen BreakerState = "half_open" // a few pass as probes
)

// BreakerConfig configures Breaker. The zero value is ready to use.
type BreakerConfig struct {
	// Failures is how many failures in a row open the breaker. Zero means 5.
	Failures int

	// Pause is how long the breaker then stays open. Zero means 30 seconds.
	Pause time.Duration

	// Probes is how many runs at once pass after that. When Probes runs in a row have succeeded, the
	// breaker closes; when one fails, it opens again. Zero means 1.
	Probes int

	// Key returns the breaker that a job counts under, such as the host that it calls.
	// Nil means one breaker for each task type. While more than 1000 keys are in use
	// (used within the last ten Pauses), further ones share one breaker.
	Key func(job *jobs.Job) string

	// IsFailure reports whether an error counts as a failure. Errors for which it
	// returns false count neither as failure nor as success. Nil means errors that are
	// charged to the job, except permanent ones; so cancellations, snoozes, deadlines
	// and shutdowns do not count.
	IsFailure func(ctx context.Context, job *jobs.Job, err error) bool

	// OnChange, unless nil, is called while a breaker changes its state: it must
	// return quickly, and must not run jobs. If it panics, that is logged.
	OnChange func(key string, from, to BreakerState)

	// OnRefused, unless nil, is called for each refused run, with the snooze. If it
	// panics, that is logged.
	OnRefused func(ctx context.Context, job *jobs.Job, delay time.Duration)
}

const (
	defaultBreakerFailures = 5
	defaultBreakerPause    = 30 * time.Second
	defaultBreakerProbes   = 1
	breakerIdlePauses      = 10 // after this many pauses without a run, the breaker of a key can start anew as closed
)

// Breaker stops runs of a type while the service that they call is down. After Failures
// failures in a row it opens: jobs are snoozed without a charge until the Pause is over,
// and for a random time of up to half a Pause more, so that they do not all come back at
// once. Then Probes runs pass, to find out whether the service works, while others are
// snoozed for another quarter to half of a Pause.
//
// Each process has its own breakers. A refused job is claimed and settled like any
// other, so a long queue behind an open breaker costs the store work; pause the queue to
// avoid that. A panic and a runtime.Goexit count as failures. A probe that never returns
// keeps its breaker half open: limit its time, see Timeout.
func Breaker(cfg BreakerConfig) jobs.Middleware {
	field.CountOr("BreakerConfig.Failures", &cfg.Failures, defaultBreakerFailures)
	field.CountOr("BreakerConfig.Probes", &cfg.Probes, defaultBreakerProbes)
	field.DurationOr("BreakerConfig.Pause", &cfg.Pause, defaultBreakerPause)
	if cfg.Key == nil {
		cfg.Key = typeOf
	}
	if cfg.IsFailure == nil {
		cfg.IsFailure = chargesTheService
	}
	cfg.guard()
	breakers := newTable(breakerIdlePauses*cfg.Pause, cfg.breaker)
	return func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) (err error) {
			b := breakers.get(cfg.Key(job))
			done, refused := b.Allow()
			if refused != nil {
				return cfg.refused(ctx, job, b, refused)
			}
			result := errCounts // if the handler does not return
			defer func() { done(result) }()
			err = next.ProcessJob(ctx, job)
			switch {
			case err == nil:
				result = nil
			case !cfg.IsFailure(ctx, job, err):
				result = errNeutral
			}
			return err
		})
	}
}

// guard protects the breaker from panics of the callbacks.
func (cfg *BreakerConfig) guard() {
	told := new(guard.Callbacks)
	if change := cfg.OnChange; change != nil {
		cfg.OnChange = func(key string, from, to BreakerState) {
			told.Call("BreakerConfig.OnChange", func() { change(key, from, to) })
		}
	}
	if refused := cfg.OnRefused; refused != nil {
		cfg.OnRefused = func(ctx context.Context, job *jobs.Job, delay time.Duration) {
			told.Call("BreakerConfig.OnRefused", func() { refused(ctx, job, delay) })
		}
	}
}

// breaker is the circuit breaker of one key.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	key       string
	reopening atomic.Pointer[time.Time] // when the pause is over
}

// The results of runs that are not successes.
var (
	errCounts  = errors.New("counts as a failure")
	errNeutral = errors.New("counts neither way")
)

func (cfg *BreakerConfig) breaker(key string) *breaker {
	b := &breaker{key: key}
	b.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: uint32(cfg.Probes),
		Timeout:     cfg.Pause,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= cfg.Failures },
		IsExcluded:  func(err error) bool { return errors.Is(err, errNeutral) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				at := time.Now().Add(cfg.Pause)
				b.reopening.Store(&at)
			}
			if cfg.OnChange != nil {
				cfg.OnChange(key, stateOf(from), stateOf(to))
			}
		},
	})
	return b
}

func stateOf(s gobreaker.State) BreakerState {
	switch s {
	case gobreaker.StateOpen:
		return BreakerOpen
	case gobreaker.StateHalfOpen:
		return BreakerHalfOpen
	}
	return BreakerClosed
}

// refused returns the error of a refused run, which snoozes the job.
func (cfg *BreakerConfig) refused(ctx context.Context, job *jobs.Job, b *breaker, why error) error {
	delay := cfg.Pause/4 + rand.N(cfg.Pause/4+1)
	if at := b.reopening.Load(); errors.Is(why, gobreaker.ErrOpenState) && at != nil {
		delay = max(time.Until(*at), 0) + 1 + rand.N(cfg.Pause/2+1)
	}
	if cfg.OnRefused != nil {
		cfg.OnRefused(ctx, job, delay)
	}
	return fmt.Errorf("%w for %q: %w", ErrBreakerOpen, b.key, &putoff.Snooze{Delay: delay, Cause: "breaker_open"})
}

// chargesTheService reports whether the called service may have caused an error: the job
// is charged for it, and it is not permanent.
func chargesTheService(ctx context.Context, job *jobs.Job, err error) bool {
	e := jobs.EndingOf(ctx, job, err)
	return (e.Outcome == jobs.EndedRetried || e.Outcome == jobs.EndedDead) && e.Class != jobs.ClassPermanent
}
