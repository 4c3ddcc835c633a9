package jobs

import (
	"math/rand/v2"
	"time"

	"github.com/seed81422ce9/jobs/internal/sleep"
)

// RetryFunc computes the delay before the next run of a job that failed with
// err. attempt is the number of failures before this one: 0 after the first. A
// negative delay means none; the longest is 100 years. It is called from
// several goroutines.
type RetryFunc func(attempt int, err error, job *Job) time.Duration

// Exponential chooses the delay at random between zero and base·2ⁿ, at most
// max, for failure number n from zero. So jobs that failed together return
// apart. A max of zero or less means 100 years.
func Exponential(base, max time.Duration) RetryFunc {
	return func(attempt int, _ error, _ *Job) time.Duration {
		if ceiling := sleep.Doubled(base, attempt, max); ceiling > 0 {
			return rand.N(ceiling) + 1
		}
		return 0
	}
}

// Linear waits base·(n+1), at most max, for the failure number n from zero. A
// max of zero or less means 100 years.
func Linear(base, max time.Duration) RetryFunc {
	return func(attempt int, _ error, _ *Job) time.Duration {
		ceiling := sleep.Ceiling(max)
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

// defaultRetry is Config.RetryPolicy where that is nil. The 25 retries of a job
// spread over three and a half days with it.
var defaultRetry = Exponential(10*time.Second, 12*time.Hour)
