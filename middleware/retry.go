package middleware

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/internal/field"
)

// Kind is what an error means for its job.
type Kind uint8

// The kinds of errors.
const (
	Unknown     Kind = iota // the next Classifier decides; after the last one: Retryable
	Retryable               // another run can succeed
	Permanent               // no other run can succeed: the job is dead at once
	RateLimited             // the called service asked for a pause
	AlreadyDone             // the effect has happened before: the job is completed
)

// Finding is what a Classifier finds out about an error.
type Finding struct {
	Kind Kind
	// Code is short and machine-readable, such as "HTTP_503". It is kept in the job's
	// error history and may label metrics, so use few values.
	Code string
	// RetryAfter is the minimum time until the next run, if the called service asked
	// for one. Otherwise it is zero.
	RetryAfter time.Duration
}

// Classifier says what an error means. With Kind Unknown, the next Classifier
// decides. Several goroutines call it at once.
type Classifier func(err error, job *jobs.Job) Finding

// RetryConfig configures Retry. The zero value classifies errors and leaves
// counts and delays to the server.
type RetryConfig struct {
	// Attempts is how many failures make a job dead. It can only lower what the job's
	// MaxRetries allows. Zero means MaxRetries alone.
	Attempts int

	// Backoff returns the delay before the next run: jobs.Exponential, jobs.Linear,
	// jobs.Constant, or a function. A job's own backoff overrides it. Nil means the
	// server's policies.
	Backoff jobs.RetryFunc

	// Classify is called first, in order; then come ClassifyHTTP and ClassifyNetwork.
	// Nil entries are skipped.
	Classify []Classifier

	// MaxRetryAfter limits Finding.RetryAfter. Zero means one day.
	MaxRetryAfter time.Duration
}

const (
	defaultMaxRetryAfter = 24 * time.Hour
	retryAfterSpread     = 10 // up to a tenth of RetryAfter is added at random
)

// Retry decides what becomes of a job whose handler returned an error, in place
// of the server's policies and its Classify:
//
//   - Retryable, Unknown: a failure is charged; the job runs again after
//     Backoff, or is dead once Attempts or the job's MaxRetries are spent.
//   - Permanent: the job is dead, with jobs.ClassPermanent.
//   - RateLimited: as Retryable, but not before RetryAfter, with
//     jobs.ClassRateLimited. Up to a tenth is added at random, so that jobs that
//     were refused together do not come back together.
//   - AlreadyDone: the error is dropped, and the job is completed.
//
// It does not change an error that itself decides (jobs.SkipRetry, RetryAfter, Snooze, Cancel,
// Classified): the handler overrides the chain, and an inner Retry overrides an outer one. Nor does it
// change the error of a run whose context ended by a cancellation, a deadline, a lost lease or a
// shutdown: the server handles those without a charge.
func Retry(cfg RetryConfig) jobs.Middleware {
	if cfg.Attempts < 0 || cfg.Attempts > field.MaxCount {
		field.Refuse("RetryConfig.Attempts", "is %d; use 1 to %d, or 0 for what the job allows", cfg.Attempts, field.MaxCount)
	}
	field.DurationOr("RetryConfig.MaxRetryAfter", &cfg.MaxRetryAfter, defaultMaxRetryAfter)
	chain := make([]Classifier, 0, len(cfg.Classify)+2)
	for _, c := range append(append(chain, cfg.Classify...), ClassifyHTTP, ClassifyNetwork) {
		if c != nil {
			chain = append(chain, c)
		}
	}
	cfg.Classify = chain
	return func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
			err := next.ProcessJob(ctx, job)
			if err == nil || jobs.EndingOf(ctx, job, err).Decided {
				return err
			}
			return cfg.decide(err, job)
		})
	}
}

// decide returns what the server should see in place of err.
func (cfg *RetryConfig) decide(err error, job *jobs.Job) error {
	var f Finding
	for _, classify := range cfg.Classify {
		if f = classify(err, job); f.Kind != Unknown {
			break
		}
	}
	c := jobs.Classification{Code: f.Code, Attempts: cfg.Attempts}
	switch f.Kind {
	case AlreadyDone:
		return nil
	case Permanent:
		c.Class, c.As = jobs.ClassPermanent, jobs.SkipRetry
		return jobs.Classified(err, c)
	case RateLimited:
		c.Class = jobs.ClassRateLimited
	}
	if asked := min(f.RetryAfter, cfg.MaxRetryAfter); asked > 0 {
		c.MinDelay = asked + rand.N(asked/retryAfterSpread+1)
	}
	if own := job.Record().Backoff.Kind != 0; cfg.Backoff != nil && !own {
		c.As = jobs.RetryAfter(max(cfg.Backoff(job.Attempt(), err, job), c.MinDelay), err)
	}
	return jobs.Classified(err, c)
}

// ClassifyNetwork classifies errors of connections as Retryable: with code "timeout" if
// they timed out, otherwise "network".
func ClassifyNetwork(err error, _ *jobs.Job) Finding {
	var timeout interface{ Timeout() bool }
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, jobs.ErrTimeout),
		errors.As(err, &timeout) && timeout.Timeout():
		return Finding{Kind: Retryable, Code: "timeout"}
	case errors.As(err, &op):
		return Finding{Kind: Retryable, Code: "network"}
	}
	return Finding{}
}
