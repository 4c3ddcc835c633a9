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
)

// ErrBreakerOpen: the circuit breaker of the job's type is open. The job was
// put off without a charge.
var ErrBreakerOpen = errors.New("the circuit breaker is open")

// BreakerState is where a circuit breaker stands.
type BreakerState string

// The states of a circuit breaker.
const (
	BreakerClosed   BreakerState = "closed"    // all runs pass
	BreakerOpen     BreakerState = "open"      // none passes
	BreakerHalfOpen BreakerState = "half_open" // a few pass, to try
)

// BreakerConfig configures Breaker. The zero value is ready to use.
type BreakerConfig struct {
	// Failures is how many failures in a row open the breaker. Zero means 5.
	Failures int

	// Pause is how long it then stays open. Zero means 30 seconds.
	Pause time.Duration

	// Probes is how many runs at once are let through after that; when as many
	// in a row succeeded it closes, and when one fails it opens again. Zero
	// means 1.
	Probes int

	// Key names the breaker of a job: what fails together, such as the host
	// that is called. Nil means one for each task type. Of more than 1000 keys in
	// use, which is within ten times Pause, the others share one.
	Key func(job *jobs.Job) string

	// IsFailure says whether an error counts against the breaker. Errors for
	// which it returns false count neither way. Nil means those for which the
	// job is charged, but not those of the job itself: permanent errors,
	// cancellations, snoozes, deadlines and shutdowns do not count.
	IsFailure func(ctx context.Context, job *jobs.Job, err error) bool

	// OnChange is called when a breaker changes its state, in the middle of that:
	// it must be quick, and must not run jobs. It may be nil.
	OnChange func(key string, from, to BreakerState)

	// OnRefused is called for each run that was refused, with the time until the
	// job comes back. It may be nil.
	OnRefused func(ctx context.Context, job *jobs.Job, delay time.Duration)
}

const (
	defaultBreakerFailures = 5
	defaultBreakerPause    = 30 * time.Second
	defaultBreakerProbes   = 1
	breakerIdlePauses      = 10 // after so many pauses without a run nothing speaks against a closed breaker
)

// Breaker keeps jobs of one type from a service that is down: after Failures
// failures in a row it opens, and jobs are put off, without a charge, until
// the Pause is over and up to half of a Pause more, chosen at random so that
// they do not all come back at once. Then Probes runs try whether the service
// is back, while the others are put off for another quarter to half of a Pause.
//
// The state is this process's own: each process finds out for itself. A
// refused job is claimed and settled like any other, so that a long queue
// before an open breaker costs the store something; pause the queue to stop
// that. A panic, and a runtime.Goexit, count as failures. A probe that never
// returns keeps its breaker half open: bound it, see Timeout.
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
			result := errCounts // unless the handler comes back
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

// guard puts the callbacks behind one.
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

// breaker is that of one key.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	key       string
	reopening atomic.Pointer[time.Time] // when the pause is over
}

// What a breaker is told of a run.
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
		IsExcluded:  func(err error) bool { return err == errNeutral },
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

// refused puts the job off.
func (cfg *BreakerConfig) refused(ctx context.Context, job *jobs.Job, b *breaker, why error) error {
	delay := cfg.Pause/4 + rand.N(cfg.Pause/4+1)
	if at := b.reopening.Load(); why == gobreaker.ErrOpenState && at != nil {
		delay = max(time.Until(*at), 0) + 1 + rand.N(cfg.Pause/2+1)
	}
	if cfg.OnRefused != nil {
		cfg.OnRefused(ctx, job, delay)
	}
	return fmt.Errorf("%w for %q: %w", ErrBreakerOpen, b.key, jobs.Snooze(delay))
}

// chargesTheService reports whether a job is charged for an error that may be
// the fault of what its handler calls.
func chargesTheService(ctx context.Context, job *jobs.Job, err error) bool {
	e := jobs.EndingOf(ctx, job, err)
	return (e.Outcome == jobs.EndedRetried || e.Outcome == jobs.EndedDead) && e.Class != jobs.ClassPermanent
}
