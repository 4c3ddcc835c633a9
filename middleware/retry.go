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
	Unknown     Kind = iota // nothing is known of it: it is Retryable
	Retryable               // another run can succeed
	Permanent               // no other run can: the job is dead at once
	RateLimited             // too much was asked: it runs again when the other side said
	AlreadyDone             // the effect is there already: the job is completed
)

// Finding is what Retry makes of an error.
type Finding struct {
	Kind Kind
	// Code is short and machine-readable, such as "HTTP_503"; it is kept in the
	// job's history. There should be few, since it may label metrics.
	Code string
	// RetryAfter is the least time until the next run, as the other side has
	// asked for. Zero means that it did not.
	RetryAfter time.Duration
}

// Classifier says what an error means; a Finding of Kind Unknown leaves it to
// the next one. It may be called from several goroutines.
type Classifier func(err error, job *jobs.Job) Finding

// RetryConfig configures Retry. The zero value classifies errors and leaves
// counts and delays to the server.
type RetryConfig struct {
	// Attempts is how many failed runs a job gets at most; then it is dead. It
	// only lowers what the job's MaxRetries allows. Zero leaves it to the job.
	Attempts int

	// Backoff computes the delay before the next run: jobs.Exponential,
	// jobs.Linear, jobs.Constant, or a function. A job's own backoff goes before
	// it. Nil leaves it to the server's policies.
	Backoff jobs.RetryFunc

	// Classify is asked first, in order; then come ClassifyHTTP and
	// ClassifyNetwork. Nil entries are skipped.
	Classify []Classifier

	// MaxRetryAfter bounds what the other side may ask for; a longer time is cut
	// to it. Zero means one day.
	MaxRetryAfter time.Duration
}

const (
	defaultMaxRetryAfter = 24 * time.Hour
	retryAfterSpread     = 10 // a tenth of it is added at random
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
// It leaves alone an error that says itself what is to become of the job
// (jobs.SkipRetry, RetryAfter, Snooze, Cancel, Classified), so that the handler
// goes before the chain and an inner Retry before an outer one; and it leaves
// alone one of a run that was cut off by a cancellation, a deadline, a lost
// lease or a shutdown, which the server sees to without a charge.
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
	switch own := job.Record().Backoff.Kind != 0; {
	case f.RetryAfter > 0:
		asked := min(f.RetryAfter, cfg.MaxRetryAfter)
		c.As = jobs.RetryAfter(asked+rand.N(asked/retryAfterSpread+1), err)
	case cfg.Backoff != nil && !own:
		c.As = jobs.RetryAfter(cfg.Backoff(job.Attempt(), err, job), err)
	}
	return jobs.Classified(err, c)
}

// ClassifyNetwork knows the errors of connections: those that timed out have
// the code "timeout", the others "network". All are Retryable.
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
