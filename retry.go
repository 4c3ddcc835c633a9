package jobs

import (
	"math/rand/v2"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// RetryFunc computes the delay before the next run of a job that failed with
// err. Attempt counts the failures before this one: it is 0 after the first.
// A negative delay means none, and none is longer than 100 years. It is called
// from several goroutines.
type RetryFunc func(attempt int, err error, job *Job) time.Duration

// Exponential draws the delay at random between zero and base·2ⁿ, at most max,
// for the failure number n from zero: jobs that failed together come back
// apart. A max of zero or less means 100 years.
func Exponential(base, max time.Duration) RetryFunc {
	return func(attempt int, _ error, _ *Job) time.Duration {
		if ceiling := doubled(base, attempt, max); ceiling > 0 {
			return rand.N(ceiling) + 1
		}
		return 0
	}
}

// Linear waits base·(n+1), at most max, for the failure number n from zero. A
// max of zero or less means 100 years.
func Linear(base, max time.Duration) RetryFunc {
	return func(attempt int, _ error, _ *Job) time.Duration {
		ceiling := ceilingOr(max)
		if n := time.Duration(attempt) + 1; base > 0 && n > ceiling/base {
			return ceiling
		}
		return base * time.Duration(attempt+1)
	}
}

// Constant waits d each time.
func Constant(d time.Duration) RetryFunc {
	return func(int, error, *Job) time.Duration { return d }
}

// defaultRetry is the policy where none was chosen.
var defaultRetry = Exponential(defaultRetryBase, defaultRetryMax)

// doubled is base·2ⁿ, at most max.
func doubled(base time.Duration, n int, max time.Duration) time.Duration {
	ceiling := ceilingOr(max)
	if n >= 63 || base > ceiling>>n {
		return ceiling
	}
	return base << n
}

func ceilingOr(max time.Duration) time.Duration {
	if max <= 0 || max > broker.MaxDelay {
		return broker.MaxDelay
	}
	return max
}

// retryDelay asks the policy that applies: the job's own, that of its type,
// the server's.
func (cfg *Config) retryDelay(job *Job, err error) time.Duration {
	policy := cfg.RetryPolicy
	if f, ok := cfg.RetryPolicies[job.Type()]; ok {
		policy = f
	}
	switch b := job.record.Backoff; b.Kind {
	case broker.BackoffExponential:
		policy = Exponential(b.Base, b.Max)
	case broker.BackoffLinear:
		policy = Linear(b.Base, b.Max)
	case broker.BackoffConstant:
		policy = Constant(b.Base)
	}
	return min(max(policy(job.Attempt(), err, job), 0), broker.MaxDelay)
}

// backoff is the pause of a loop of the server after failures of its calls in
// a row: doubling from 50 ms, between half and the whole of it, at most a
// second, because the store's return should be noticed at once.
func backoff(failures int) time.Duration {
	return jitter(doubled(50*time.Millisecond, failures-1, time.Second), 0.5)
}

// jitter draws from the upper part of d: a spread of 0.5 gives the half of it
// at least.
func jitter(d time.Duration, spread float64) time.Duration {
	return d - time.Duration(rand.Float64()*spread*float64(d))
}
